#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"

/// Many tensors as the work of one kernel: each block has CHUNK elements of one of them.
namespace tessera TSR_API {

/// Tensors of one size that a kernel goes through side by side, e.g. a weight and its gradient. A
/// scalar may be among those that follow the first.
using SideBySide = std::vector<at::Tensor>;

/// The work of a kernel on several entries, cut into blocks of about the same size.
struct Chunks {
  at::Tensor rows;     // On the GPU: for each entry the addresses, its size and its first block.
  int64_t count = 0;   // Of rows.
  int64_t blocks = 0;  // Of the kernel.
  int64_t width = 1;   // How many elements a thread may load at once, until fewer are left.
};

/// Copied to the GPU without waiting for it. All entries have the same number of tensors.
Chunks chunks_of(std::span<const SideBySide> entries);

/// CHUNK of such kernels.
inline constexpr int64_t kChunk = 16384;

/// Defines `entry_of`, which finds the entry of a block. The kernel's struct Entry has a pointer
/// for each tensor, then `i64 size, first_block`.
inline constexpr const char* kChunkSource = R"cuda(
template <class Entry>
__device__ Entry entry_of(const Entry* entries, int count, i64 block) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (entries[middle].first_block <= block ? low : high) = middle;
  }
  return entries[low];
}
)cuda";

}  // namespace tessera
