// Any bytes: either refused by DataError, or an array that ends where its file does.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tessera/base/error.h"
#include "tessera/format/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const tessera::NpyHeader header = tessera::parse_npy(bytes, "fuzz");
    const auto length = tessera::bytes_of(header.dtype, header.shape);
    if (!length || header.data_begin + *length != static_cast<int64_t>(size)) std::abort();
  } catch (const tessera::DataError&) {
  }
  return 0;
}
