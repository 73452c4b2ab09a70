#include "tessera/base/random_name.h"

#include <iomanip>
#include <random>
#include <sstream>

namespace tessera {

std::string random_name() {
  std::random_device random;
  std::ostringstream name;
  for (int i = 0; i < 4; ++i) name << std::hex << std::setw(8) << std::setfill('0') << random();
  return name.str();
}

}  // namespace tessera
