#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The names of modules that match a pattern, in their order: "*" stands for any part of a name
/// between dots. ConfigError, with the nearest name, if there are none.
std::vector<std::string> names_matching(const std::string& pattern,
                                        std::span<const std::string> names);

}  // namespace tessera
