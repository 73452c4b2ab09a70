#include "tessera/draw/internal/page_parts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/draw/internal/markup.h"

namespace tessera::draw::detail {
namespace {

// Replaces the placeholders of the template; does not scan the inserted text again.
std::string fill(std::string_view text,
                 const std::vector<std::pair<std::string, std::string>>& parts) {
  std::string page;
  const std::vector<std::string_view> pieces = split(text, '@');
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto part =
        std::ranges::find(parts, pieces[i], &std::pair<std::string, std::string>::first);
    page += i % 2 == 1 ? part->second : std::string(pieces[i]);
  }
  return page;
}

}  // namespace

std::string fill_page(const PageParts& parts, std::string_view title, std::string_view json,
                      Asks asks) {
  const std::pair<std::string, std::string> heading{"TITLE", escape_xml(title)};
  return fill(parts.frame, {{"POLICY", asks == Asks::kNobody ? "" : "; connect-src 'self'"},
                            heading,
                            {"STYLE", std::string(parts.css)},
                            {"BODY", fill(parts.body, {heading})},
                            {"DATA", escape_for_script(json)},
                            {"SCRIPT", std::string(parts.script)}});
}

}  // namespace tessera::draw::detail
