#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tessera::draw::detail {

/// Escapes `text` for an element or attribute of XML or HTML. visible_lines() spells out characters
/// that are invalid or invisible there.
std::string escape_xml(std::string_view text);

/// The document as text; its strings are passed through visible_lines().
std::string page_text(nlohmann::ordered_json json);

/// Escapes JSON for an HTML script element, so that nothing in it can end the element. The value
/// stays the same.
std::string escape_for_script(std::string_view json);

}  // namespace tessera::draw::detail
