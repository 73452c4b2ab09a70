#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tessera::draw::detail {

/// `text` as the content of an element or an attribute of XML or HTML; what such a text may not
/// hold, or nobody could see, is spelt as by visible_lines().
std::string escape_xml(std::string_view text);

/// The document's text; its texts are what people read, as by visible_lines().
std::string page_text(nlohmann::ordered_json json);

/// JSON as the content of an HTML script element, which nothing in it can end; the same value.
std::string escape_for_script(std::string_view json);

}  // namespace tessera::draw::detail
