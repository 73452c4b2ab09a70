// Any text: either refused by DataError, or a config that survives being written and read again.
// The same text as a weight index names only files beside it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/format/llama_config.h"
#include "tessera/format/weight_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::LlamaConfig config = tessera::parse_llama_config(text, "fuzz");
    if (tessera::parse_llama_config(to_json(config, "float32"), "again") != config) std::abort();
  } catch (const tessera::DataError&) {
  }
  try {
    for (const auto& [name, file] : tessera::parse_weight_index(text, "fuzz")) {
      if (file.find('/') != std::string::npos) std::abort();
    }
  } catch (const tessera::DataError&) {
  }
  return 0;
}
