// Any bytes: what people are shown holds no control characters and is UTF-8, or ASCII where that is
// asked for; what can be seen is not changed again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/terminal_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string shown = tessera::visible(text);
  const auto steers = [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; };
  if (std::ranges::any_of(shown, steers)) std::abort();
  if (tessera::visible(shown) != shown) std::abort();
  const std::string lines = tessera::visible_lines(text);
  if (std::ranges::count(lines, '\n') != std::ranges::count(text, '\n')) std::abort();
  const auto ascii = [](char c) { return c >= 0; };
  if (!std::ranges::all_of(tessera::to_ascii(text), ascii)) std::abort();
  return 0;
}
