#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Looks up a variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;

/// The variables of this process.
Environment process_environment();

}  // namespace tessera
