#pragma once

#include <string>
#include <string_view>

namespace tessera::draw::detail {

/// The files of a page in page/, which the build embeds into the program.
struct PageParts {
  // With the placeholders @POLICY@, @TITLE@, @STYLE@, @BODY@, @DATA@ and @SCRIPT@.
  std::string_view frame;
  std::string_view body;  // With the placeholder @TITLE@.
  std::string_view css;
  std::string_view script;
};
extern const PageParts kLayoutPage;
extern const PageParts kReportPage;
extern const PageParts kTimelinePage;

/// Whether a page may ask the server that it came from.
enum class Asks { kNobody, kItsServer };

/// The page with its title and data; `json` cannot end the script element that holds it.
std::string fill_page(const PageParts& parts, std::string_view title, std::string_view json,
                      Asks asks = Asks::kNobody);

}  // namespace tessera::draw::detail
