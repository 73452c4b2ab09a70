// Any bytes as .metadata of PyTorch, and as a tensor that it saved: refused by DataError, or read
// without leaving them.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tessera/base/error.h"
#include "tessera/format/checkpoint/torch_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    for (const auto& [name, tensor] : tessera::parse_torch_metadata(bytes, "fuzz")) {
      if (!tessera::bytes_of(tensor.dtype, tensor.shape)) abort();
    }
  } catch (const tessera::DataError&) {
  }
  try {
    const auto values = tessera::torch_tensor_bytes(bytes, tessera::DType::kF32, {4, 3}, "fuzz");
    if (values.size() != 48 || values.data() < bytes.data() ||
        values.data() + values.size() > bytes.data() + bytes.size()) {
      abort();
    }
  } catch (const tessera::DataError&) {
  }
  return 0;
}
