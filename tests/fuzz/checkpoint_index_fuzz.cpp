// Any text: either refused by DataError, or an index that is written and read as the same again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/format/checkpoint/checkpoint_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::CheckpointIndex index = tessera::parse_checkpoint_index(text, "fuzz");
    if (!(tessera::parse_checkpoint_index(tessera::to_json(index), "again") == index)) abort();
    tessera::check_complete(index, "fuzz");
  } catch (const tessera::DataError&) {
  }
  return 0;
}
