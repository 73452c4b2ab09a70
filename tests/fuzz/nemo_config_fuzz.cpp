// Any text as a configuration of NeMo's: either refused by ConfigError, or written and read again
// as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/plan/nemo/config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera::nemo;
  try {
    const DistributedConfig config =
        config_from_json(std::string_view(reinterpret_cast<const char*>(data), size));
    if (config_from_json(to_json(config)) != config) std::abort();
  } catch (const tessera::ConfigError&) {
  }
  return 0;
}
