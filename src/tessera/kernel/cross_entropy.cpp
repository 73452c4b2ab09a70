#include "tessera/kernel/cross_entropy.h"

#include <ATen/ops/empty.h>

#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

// A block has a row. The largest logit and the sum relative to it are found in one pass.
constexpr GpuKernel kForward("cross_entropy", R"cuda(
struct Sum { float largest, sum; };
#define NOTHING __int_as_float(0xff800000)  // -infinity

__device__ Sum merged(Sum a, Sum b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == NOTHING) return {largest, a.sum + b.sum};  // Both 0, or one of them of NaNs.
  return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}

extern "C" __global__ void cross_entropy(const T* logits, const i64* targets, i64 ignored,
                                         float* losses, float* log_sums, i64 size) {
  const i64 row = blockIdx.x;
  logits += row * size;
  Sum own{NOTHING, 0};
  for (i64 column = i64(threadIdx.x) * WIDTH; column < size; column += i64(blockDim.x) * WIDTH) {
    const Pack pack = load(logits + column);
    Sum few{wide(pack.at[0]), 0};
    for (int i = 1; i < WIDTH; ++i) few.largest = fmaxf(few.largest, wide(pack.at[i]));
    if (few.largest == NOTHING) {  // Of a NaN and -infinity, too. NaN stays NaN.
      for (int i = 0; i < WIDTH; ++i) own.sum += wide(pack.at[i]) == NOTHING ? 0 : wide(pack.at[i]);
      continue;
    }
    for (int i = 0; i < WIDTH; ++i) few.sum += __expf(wide(pack.at[i]) - few.largest);
    own = merged(own, few);
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    own = merged(own, {__shfl_xor_sync(~0u, own.largest, distance), __shfl_xor_sync(~0u, own.sum, distance)});
  }
  __shared__ Sum parts[32];
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int i = 1; i < blockDim.x / 32; ++i) own = merged(own, parts[i]);
  const float log_sum = own.largest + logf(own.sum);
  const i64 target = targets[row];
  log_sums[row] = log_sum;
  const bool is_known = 0 <= target && target < size;  // Ids on a GPU have not been checked.
  losses[row] = target == ignored ? 0 : is_known ? log_sum - wide(logits[target]) : __int_as_float(0x7fffffff);
}
)cuda");

constexpr GpuKernel kBackward("cross_entropy_backward", R"cuda(
extern "C" __global__ void cross_entropy_backward(const float* gradients, const T* logits,
                                                  const i64* targets, const float* log_sums,
                                                  i64 ignored, T* out, i64 size) {
  const i64 row = blockIdx.x;
  logits += row * size;
  out += row * size;
  const i64 target = targets[row];
  const float factor = target == ignored ? 0 : gradients[row], log_sum = log_sums[row];
  for (i64 column = i64(threadIdx.x) * WIDTH; column < size; column += i64(blockDim.x) * WIDTH) {
    const Pack pack = load(logits + column);
    Pack made;
    for (int i = 0; i < WIDTH; ++i) {
      const float share = __expf(wide(pack.at[i]) - log_sum) - (column + i == target ? 1.0f : 0.0f);
      put(made.at[i], factor == 0 ? 0 : share * factor);
    }
    store(out + column, made);
  }
}
)cuda");

constexpr int64_t kThreads = 512;

}  // namespace

GpuCrossEntropy cross_entropy_on_gpu(const at::Tensor& logits, const at::Tensor& targets,
                                     int64_t ignored) {
  const int64_t rows = logits.size(0);
  const auto numbers = logits.options().dtype(at::kFloat);
  GpuCrossEntropy made{at::empty({rows}, numbers), at::empty({rows}, numbers)};
  kForward.launch(
      logits.device(), {.dtype = logits.scalar_type(), .width = pack_width(logits, logits.size(1))},
      {.blocks = rows, .threads = kThreads}, logits.const_data_ptr(), targets.const_data_ptr(),
      ignored, made.losses.mutable_data_ptr(), made.log_sums.mutable_data_ptr(), logits.size(1));
  return made;
}

void cross_entropy_backward_on_gpu(const at::Tensor& gradients, const at::Tensor& logits,
                                   const at::Tensor& targets, const at::Tensor& log_sums,
                                   int64_t ignored, const at::Tensor& out) {
  kBackward.launch(
      logits.device(),
      {.dtype = logits.scalar_type(), .width = pack_width({logits, out}, logits.size(1))},
      {.blocks = logits.size(0), .threads = kThreads}, gradients.const_data_ptr(),
      logits.const_data_ptr(), targets.const_data_ptr(), log_sums.const_data_ptr(), ignored,
      out.mutable_data_ptr(), logits.size(1));
}

}  // namespace tessera
