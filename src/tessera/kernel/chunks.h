#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/base/text.h"
#include "tessera/kernel/gpu_kernel.h"

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

/// Starts such a kernel. Its parameters are `const Entry* entries, int count`, then `arguments`.
template <class... Arguments>
void launch_on(const Chunks& chunks, const GpuKernel& kernel, at::ScalarType dtype,
               Arguments... arguments) {
  kernel.launch(chunks.rows.device(),
                {.dtype = dtype, .width = chunks.width, .constants = concat("-DCHUNK=", kChunk)},
                {.blocks = chunks.blocks}, chunks.rows.const_data_ptr(),
                static_cast<int32_t>(chunks.count), arguments...);
}

/// What their text shares: `entry_of_block` and `for_each_pack`, and for optimizers `scaled` and
/// `store_weight`. The kernel's struct Entry has a pointer for each tensor, then `i64 size,
/// first_block`.
inline constexpr const char* kChunkSource = R"cuda(
// N neighbours, loaded and stored at once.
template <class Number, int N>
struct alignas(sizeof(Number) * N) Neighbours { Number at[N]; };
template <int N, class Number>
__device__ __forceinline__ Neighbours<Number, N> load(const Number* from) {
  return *reinterpret_cast<const Neighbours<Number, N>*>(from);
}
template <class Number, int N>
__device__ __forceinline__ void store(Number* to, const Neighbours<Number, N>& values) {
  *reinterpret_cast<Neighbours<Number, N>*>(to) = values;
}

template <class Entry>
__device__ Entry entry_of(const Entry* entries, int count, i64 block) {
  int low = 0, high = count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (entries[middle].first_block <= block ? low : high) = middle;
  }
  return entries[low];
}

// For all threads of the block.
template <class Entry>
__device__ Entry entry_of_block(const Entry* entries, int count) {
  __shared__ Entry shared;
  if (threadIdx.x == 0) shared = entry_of(entries, count, i64(blockIdx.x));
  __syncthreads();
  return shared;
}

template <int N>
struct Count {};

// The threads share the elements of the block: `work(Count<N>(), at)` is for N of them.
template <class Entry, class Work>
__device__ __forceinline__ void for_each_pack(const Entry& entry, Work& work) {
  const i64 begin = (blockIdx.x - entry.first_block) * CHUNK;
  const i64 end = begin + CHUNK < entry.size ? begin + CHUNK : entry.size;
  for (i64 at = begin + threadIdx.x * WIDTH; at < end; at += blockDim.x * WIDTH) {
    if (at + WIDTH <= end) {
      work(Count<WIDTH>(), at);
    } else {
      for (i64 i = at; i < end; ++i) work(Count<1>(), i);
    }
  }
}

// Without fusing it with an addition: the bits are those of gradients that were clipped before the step.
__device__ __forceinline__ float scaled(T gradient, float factor) { return __fmul_rn(wide(gradient), factor); }

// Also rounds it into the parameter. A float32 parameter is the weight itself.
template <class Entry, int N>
__device__ __forceinline__ void store_weight(const Entry& entry, i64 at, const Neighbours<float, N>& weight) {
  store(entry.weight + at, weight);
  if constexpr (sizeof(T) < sizeof(float)) {
    Neighbours<T, N> rounded;
    for (int i = 0; i < N; ++i) put(rounded.at[i], weight.at[i]);
    store(entry.parameter + at, rounded);
  }
}
)cuda";

}  // namespace tessera
