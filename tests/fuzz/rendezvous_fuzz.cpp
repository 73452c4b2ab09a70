// Any line from the network: either refused by CommError, or a message that is written and read
// again as the same line.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/launch/rendezvous_protocol.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string line =
        tessera::encode(tessera::decode({reinterpret_cast<const char*>(data), size}));
    if (line.size() > tessera::kLongestMessage || line.back() != '\n') std::abort();
    if (tessera::encode(tessera::decode(std::string_view(line).substr(0, line.size() - 1))) !=
        line) {
      std::abort();
    }
  } catch (const tessera::CommError&) {
  }
  return 0;
}
