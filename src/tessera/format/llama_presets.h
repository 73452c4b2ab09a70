#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"

namespace tessera TSR_API {

/// Named shapes: "tiny" (two million parameters, bytes as tokens), "llama3-8b" and "llama3-70b";
/// with experts, "tiny-moe" and "mixtral-8x7b".
/// ConfigError with the nearest name for other names.
LlamaConfig llama_preset(std::string_view name);

/// Every name that llama_preset accepts.
std::vector<std::string> llama_preset_names();

}  // namespace tessera
