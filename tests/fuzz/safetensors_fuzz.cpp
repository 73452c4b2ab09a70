// Any bytes: either refused by DataError, or a file whose tensors share out all of its bytes.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tessera/base/error.h"
#include "tessera/format/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const tessera::SafetensorsHeader header = tessera::parse_safetensors(bytes, "fuzz");
    int64_t at = header.data_begin;
    for (const tessera::StoredTensor& tensor : header.tensors) {
      if (tensor.begin != at || tensor.end < tensor.begin) std::abort();
      at = tensor.end;
    }
    if (at != static_cast<int64_t>(size)) std::abort();
  } catch (const tessera::DataError&) {
  }
  return 0;
}
