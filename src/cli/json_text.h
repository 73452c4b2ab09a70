#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera::cli {

/// The document as text. Invalid UTF-8, which file names may contain, is replaced.
inline std::string json_text(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace tessera::cli
