#include "tessera/kernel/chunks.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>

#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

int64_t width_of(std::span<const SideBySide> entries) {
  constexpr int64_t kBytes = 16;
  int64_t largest = 1;
  for (const at::Tensor& tensor : entries[0]) {
    largest = std::max<int64_t>(largest, static_cast<int64_t>(tensor.element_size()));
  }
  const int64_t width = kBytes / largest;
  for (const SideBySide& tensors : entries) {
    for (const at::Tensor& tensor : tensors) {
      const auto address = reinterpret_cast<uintptr_t>(tensor.const_data_ptr());
      const auto step =
          static_cast<uintptr_t>(width) * static_cast<uintptr_t>(tensor.element_size());
      if (tensor.numel() > 1 && address % step != 0) return 1;
    }
  }
  return width;
}

}  // namespace

Chunks chunks_of(std::span<const SideBySide> entries) {
  const auto columns = static_cast<int64_t>(entries[0].size()) + 2;
  Chunks chunks;
  chunks.count = static_cast<int64_t>(entries.size());
  chunks.width = width_of(entries);
  const at::Device device = entries[0][0].device();
  const at::Tensor rows = at::empty({chunks.count, columns},
                                    at::TensorOptions(at::kLong).pinned_memory(device.is_cuda()));
  auto* to = rows.mutable_data_ptr<int64_t>();
  for (const SideBySide& tensors : entries) {
    for (const at::Tensor& tensor : tensors) {
      *to++ = reinterpret_cast<int64_t>(tensor.const_data_ptr());
    }
    *to++ = tensors[0].numel();
    *to++ = chunks.blocks;
    chunks.blocks += groups_of(tensors[0].numel(), kChunk);
  }
  chunks.rows = rows.to(device, /*non_blocking=*/true);
  return chunks;
}

}  // namespace tessera
