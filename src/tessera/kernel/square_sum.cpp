#include "tessera/kernel/square_sum.h"

#include <ATen/ops/empty.h>

#include <vector>

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

struct OwnSum {
  const T* values;
  float sum;

  template <int N>
  __device__ void operator()(Count<N>, i64 at) {
    const auto some = load<N>(values + at);
    for (const T value : some.at) sum += wide(value) * wide(value);
  }
};

extern "C" __global__ void square_sum(const Entry* entries, int count, double* sums) {
  __shared__ double sum_of_warp[32];
  const Entry entry = entry_of_block(entries, count);
  OwnSum own{entry.values, 0};
  for_each_pack(entry, own);
  double sum = own.sum;
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
  launch_on(chunks, kSquareSum, tensors[0].scalar_type(), sums.mutable_data_ptr());
  return sums.sum();
}

}  // namespace tessera
