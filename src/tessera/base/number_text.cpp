#include "tessera/base/number_text.h"

#include <iomanip>
#include <sstream>

namespace tessera {

std::string fixed(double value, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << value;
  return std::move(text).str();
}

std::string percent(double share) {
  return fixed(100 * share, 1) + " %";
}

}  // namespace tessera
