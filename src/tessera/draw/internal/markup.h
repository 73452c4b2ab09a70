#pragma once

#include <string>
#include <string_view>

namespace tessera::draw::detail {

/// `text` as the content of an element or an attribute of XML or HTML.
std::string escape_xml(std::string_view text);

/// JSON as the content of an HTML script element, which nothing in it can end; the same value.
std::string escape_for_script(std::string_view json);

}  // namespace tessera::draw::detail
