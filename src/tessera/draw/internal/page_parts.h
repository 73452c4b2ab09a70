#pragma once

#include <string_view>

namespace tessera {

/// The files of page/, put into the program by the build.
extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageScript;

}  // namespace tessera
