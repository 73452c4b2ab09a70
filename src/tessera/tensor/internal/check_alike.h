#pragma once

#include <exception>
#include <functional>
#include <span>
#include <string>

#include "tessera/comm/group.h"
#include "tessera/mesh/device_mesh.h"

namespace tessera::tensor::detail {

/// ConfigError if this rank is not in the mesh. Local: the other ranks do not wait.
void check_member(const DeviceMesh& mesh);

/// The exception that the body throws; null if it does not throw.
std::exception_ptr error_of(const std::function<void()>& body);

/// **Collective.** Compares errors and values on all ranks that the groups connect, one group after
/// the other; the groups of all axes connect all ranks of a mesh.
///
/// If a rank has an error or the values differ, all throw: a rank with an error throws that, the
/// others ConfigError with `what` and their value.
void check_alike(std::span<const Group> groups, const std::string& what, const std::string& value,
                 const std::exception_ptr& error);

}  // namespace tessera::tensor::detail
