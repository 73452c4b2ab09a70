// Any text as a file of NCCL options: either refused by ConfigError, or its sections are known.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tessera/base/error.h"
#include "tessera/plan/nccl_options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    for (const auto& [name, options] : tessera::parse_nccl_config(text, "input")) {
      const auto sections = tessera::nccl_sections();
      if (std::ranges::find(sections, name) == sections.end()) std::abort();
      if (options.min_ctas.value_or(1) < 1 || options.max_ctas.value_or(1) < 1) std::abort();
    }
  } catch (const tessera::ConfigError&) {
  }
  return 0;
}
