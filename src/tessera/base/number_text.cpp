#include "tessera/base/number_text.h"

#include <array>
#include <charconv>
#include <iomanip>
#include <sstream>

namespace tessera {

std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << value;
  return std::move(text).str();
}

std::string exact_text(double value) {
  std::array<char, 40> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

}  // namespace tessera
