#include "tessera/draw/internal/markup.h"

#include <nlohmann/json.hpp>

#include "tessera/base/terminal_text.h"

namespace tessera::draw::detail {
namespace {

void make_visible(nlohmann::ordered_json& json) {
  if (auto* text = json.get_ptr<std::string*>()) {
    *text = visible_lines(*text);
  } else if (json.is_structured()) {  // Iterating over a number would yield the number itself.
    for (auto& part : json) make_visible(part);
  }
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char c : visible_lines(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string page_text(nlohmann::ordered_json json) {
  make_visible(json);
  return json.dump();
}

std::string escape_for_script(std::string_view json) {
  std::string escaped;
  for (const char c : json) {
    if (c == '<') {
      escaped += "\\u003c";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

}  // namespace tessera::draw::detail
