#include "tessera/kernel/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

// THREADS threads share a row, of which each has PACKS packs.
constexpr const char* kRowSum = R"cuda(
__device__ float row_sum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
#if THREADS > 32
  __shared__ float parts[THREADS / 32];
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  x = 0;
  for (int i = 0; i < THREADS / 32; ++i) x += parts[i];
#endif
  return x;
}
)cuda";

constexpr GpuKernel kForward("add_norm", kRowSum, R"cuda(
extern "C" __global__ void add_norm(const T* x, const T* added, const T* weights, T* sums, T* out,
                                    float* scales, i64 rows, int size, float eps) {
  const int thread = threadIdx.x % THREADS;
  const i64 row = i64(blockIdx.x) * (blockDim.x / THREADS) + threadIdx.x / THREADS;
  if (row >= rows) return;
  Pack values[PACKS];
  float squares = 0;
  for (int p = 0; p < PACKS; ++p) {
    const int column = (p * THREADS + thread) * WIDTH;
    if (column >= size) break;
    values[p] = load(x + row * size + column);
    if (added != nullptr) {
      const Pack other = load(added + row * size + column);
      for (int i = 0; i < WIDTH; ++i) put(values[p].at[i], wide(values[p].at[i]) + wide(other.at[i]));
      store(sums + row * size + column, values[p]);
    }
    for (int i = 0; i < WIDTH; ++i) squares += wide(values[p].at[i]) * wide(values[p].at[i]);
  }
  const float scale = rsqrtf(row_sum(squares) / size + eps);
  if (thread == 0) scales[row] = scale;
  for (int p = 0; p < PACKS; ++p) {
    const int column = (p * THREADS + thread) * WIDTH;
    if (column >= size) break;
    const Pack weight = load(weights + column);
    for (int i = 0; i < WIDTH; ++i) put(values[p].at[i], wide(values[p].at[i]) * scale * wide(weight.at[i]));
    store(out + row * size + column, values[p]);
  }
}
)cuda");

// Each block has several rows, and sums its part of the weight's gradient.
constexpr GpuKernel kBackward("add_norm_backward", kRowSum, R"cuda(
extern "C" __global__ void add_norm_backward(const T* of_normed, const T* of_sum, const T* sums,
                                             const T* weights, const float* scales, T* out,
                                             float* parts, i64 rows, int size) {
  const int thread = threadIdx.x % THREADS;
  const i64 first = i64(blockIdx.x) * (blockDim.x / THREADS) + threadIdx.x / THREADS;
  const i64 step = i64(gridDim.x) * (blockDim.x / THREADS);
  float of_weight[PACKS][WIDTH] = {};
  for (i64 row = first; row < rows; row += step) {
    const float scale = scales[row];
    Pack gradients[PACKS], values[PACKS];
    float dot = 0;
    for (int p = 0; p < PACKS; ++p) {
      const int column = (p * THREADS + thread) * WIDTH;
      if (column >= size) break;
      gradients[p] = load(of_normed + row * size + column);
      values[p] = load(sums + row * size + column);
      const Pack weight = load(weights + column);
      for (int i = 0; i < WIDTH; ++i) {
        const float product = wide(gradients[p].at[i]) * wide(values[p].at[i]) * scale;
        of_weight[p][i] += product;
        dot += product * wide(weight.at[i]);
      }
    }
    const float mean = row_sum(dot) / size;
    for (int p = 0; p < PACKS; ++p) {
      const int column = (p * THREADS + thread) * WIDTH;
      if (column >= size) break;
      const Pack weight = load(weights + column);
      Pack made, other;
      if (of_sum != nullptr) other = load(of_sum + row * size + column);
      for (int i = 0; i < WIDTH; ++i) {
        const float unit = wide(values[p].at[i]) * scale;
        float gradient = (wide(gradients[p].at[i]) * wide(weight.at[i]) - unit * mean) * scale;
        if (of_sum != nullptr) gradient += wide(other.at[i]);
        put(made.at[i], gradient);
      }
      store(out + row * size + column, made);
    }
  }
  for (int p = 0; p < PACKS; ++p) {
    const int column = (p * THREADS + thread) * WIDTH;
    if (column >= size) break;
    for (int i = 0; i < WIDTH; ++i) parts[first * size + column + i] = of_weight[p][i];
  }
}
)cuda");

constexpr int64_t kMaxSize = 16384;  // Threads hold a row in registers.

struct Work {
  GpuKernel::Form form;
  RowThreads threads;
};

Work work_for(at::TensorList tensors, int64_t size) {
  const int64_t width = pack_width(tensors, size);
  const int64_t packs = groups_of(size, width);
  const RowThreads threads = row_threads(packs);
  return {{.dtype = tensors[0].scalar_type(),
           .width = width,
           .constants =
               concat("-DTHREADS=", threads.of_row, " -DPACKS=", groups_of(packs, threads.of_row))},
          threads};
}

std::vector<at::Tensor> defined_of(std::vector<at::Tensor> tensors) {
  std::erase_if(tensors, [](const at::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

}  // namespace

bool has_norm_kernels(const at::Tensor& x) {
  return has_kernels(x) && x.numel() > 0 && x.size(-1) <= kMaxSize;
}

GpuNorm add_norm_on_gpu(const at::Tensor& x, const at::Tensor& added, const at::Tensor& weight,
                        double eps) {
  const int64_t size = x.size(-1);
  const int64_t rows = x.numel() / size;
  GpuNorm made{.sum = added.defined() ? at::empty_like(x) : x,
               .normed = at::empty_like(x),
               .scales = at::empty({rows}, x.options().dtype(at::kFloat))};
  const Work work = work_for(defined_of({x, added, weight, made.sum, made.normed}), size);
  kForward.launch(
      x.device(), work.form,
      {.blocks = groups_of(rows, work.threads.rows), .threads = work.threads.of_block()},
      x.const_data_ptr(), data_or_null(added), weight.const_data_ptr(), made.sum.mutable_data_ptr(),
      made.normed.mutable_data_ptr(), made.scales.mutable_data_ptr(), rows,
      static_cast<int32_t>(size), static_cast<float>(eps));
  return made;
}

GpuNormGradients add_norm_backward_on_gpu(const at::Tensor& of_normed, const at::Tensor& of_sum,
                                          const at::Tensor& sum, const at::Tensor& weight,
                                          const at::Tensor& scales) {
  constexpr int64_t kMaxBlocks = 512;  // Enough for any card; each writes a part of the sum.
  const int64_t size = sum.size(-1);
  const int64_t rows = sum.numel() / size;
  const at::Tensor made = at::empty_like(sum);
  const Work work = work_for(defined_of({sum, of_normed, of_sum, weight, made}), size);
  const int64_t blocks = std::min(groups_of(rows, work.threads.rows), kMaxBlocks);
  const at::Tensor of_weight = at::empty({blocks * work.threads.rows, size}, scales.options());
  kBackward.launch(sum.device(), work.form, {.blocks = blocks, .threads = work.threads.of_block()},
                   of_normed.const_data_ptr(), data_or_null(of_sum), sum.const_data_ptr(),
                   weight.const_data_ptr(), scales.const_data_ptr(), made.mutable_data_ptr(),
                   of_weight.mutable_data_ptr(), rows, static_cast<int32_t>(size));
  return {made, of_weight.sum(0)};
}

}  // namespace tessera
