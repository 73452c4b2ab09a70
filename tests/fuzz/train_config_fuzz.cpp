// Any text as a file of a run's configuration: either refused by ConfigError, or printed and read
// again as the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/config/layers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const auto config_of = [](std::string_view text) {
    return resolve({.file = parse_config_toml(text, "fuzz")});
  };
  try {
    const TrainConfig config =
        config_of(std::string_view(reinterpret_cast<const char*>(data), size));
    try {
      if (config_of(to_toml(config)) != config) std::abort();
    } catch (const ConfigError&) {
      std::abort();
    }
  } catch (const ConfigError&) {
  }
  return 0;
}
