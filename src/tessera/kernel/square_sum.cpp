#include "tessera/kernel/square_sum.h"

#include <ATen/ops/empty.h>

#include <vector>

#include "tessera/base/text.h"
#include "tessera/kernel/chunks.h"
#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

// Each thread's sum has few terms, so that float32 is enough; theirs are added in float64.
constexpr GpuKernel kSquareSum("square_sum", kChunkSource, R"cuda(
struct Entry {
  const T* values;
  i64 size, first_block;
};

extern "C" __global__ void square_sum(const Entry* entries, int count, double* sums) {
  __shared__ Entry shared;
  __shared__ double sum_of_warp[32];
  if (threadIdx.x == 0) shared = entry_of(entries, count, i64(blockIdx.x));
  __syncthreads();
  const Entry entry = shared;
  const i64 begin = (blockIdx.x - entry.first_block) * CHUNK;
  const i64 end = begin + CHUNK < entry.size ? begin + CHUNK : entry.size;
  float own = 0;
  for (i64 at = begin + threadIdx.x * WIDTH; at < end; at += blockDim.x * WIDTH) {
    if (at + WIDTH <= end) {
      const Pack pack = load(entry.values + at);
      for (int i = 0; i < WIDTH; ++i) own += wide(pack.at[i]) * wide(pack.at[i]);
    } else {
      for (i64 i = at; i < end; ++i) own += wide(entry.values[i]) * wide(entry.values[i]);
    }
  }
  double sum = own;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) sum_of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (u32 i = 1; i < blockDim.x / 32; ++i) sum += sum_of_warp[i];
  sums[blockIdx.x] = sum;
}
)cuda");

}  // namespace

at::Tensor square_sum_on_gpu(at::TensorList tensors) {
  std::vector<SideBySide> entries;
  for (const at::Tensor& tensor : tensors) entries.push_back({tensor});
  const Chunks chunks = chunks_of(entries);
  const at::Tensor sums = at::empty({chunks.blocks}, tensors[0].options().dtype(at::kDouble));
  kSquareSum.launch(tensors[0].device(),
                    {.dtype = tensors[0].scalar_type(),
                     .width = chunks.width,
                     .constants = concat("-DCHUNK=", kChunk)},
                    {.blocks = chunks.blocks}, chunks.rows.const_data_ptr(),
                    static_cast<int32_t>(chunks.count), sums.mutable_data_ptr());
  return sums.sum();
}

}  // namespace tessera
