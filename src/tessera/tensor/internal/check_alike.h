#pragma once

#include <exception>
#include <functional>
#include <span>
#include <string>

#include "tessera/comm/group.h"
#include "tessera/mesh/device_mesh.h"

namespace tessera::tensor::detail {

/// Refuses a mesh in which this rank is not. Local: nobody waits for ranks outside.
void check_member(const DeviceMesh& mesh);

/// What the body throws; null where it throws nothing.
std::exception_ptr error_of(const std::function<void()>& body);

/// **Collective.** Compares errors and values on all ranks that the groups connect, one group after
/// the other; the axes of a mesh connect all of its ranks.
///
/// Where one rank has an error or the values differ, all throw: who has an error of its own that
/// one, the others ConfigError with `what` and their value.
void check_alike(std::span<const Group> groups, const std::string& what, const std::string& value,
                 const std::exception_ptr& error);

}  // namespace tessera::tensor::detail
