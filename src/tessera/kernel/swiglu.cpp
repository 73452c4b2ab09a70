#include "tessera/kernel/swiglu.h"

#include <ATen/ops/empty.h>

#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

constexpr GpuKernel kForward("swiglu", R"cuda(
extern "C" __global__ void swiglu(const T* gates, const T* ups, T* out, i64 total, i64 size,
                                  i64 gate_row, i64 up_row) {
  const i64 index = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * WIDTH;
  if (index >= total) return;
  const i64 row = index / size, column = index - row * size;
  const Pack gate = load(gates + row * gate_row + column), up = load(ups + row * up_row + column);
  Pack made;
  for (int i = 0; i < WIDTH; ++i) {
    const float g = wide(gate.at[i]);
    put(made.at[i], g / (1 + __expf(-g)) * wide(up.at[i]));
  }
  store(out + index, made);
}
)cuda");

constexpr GpuKernel kBackward("swiglu_backward", R"cuda(
extern "C" __global__ void swiglu_backward(const T* gradients, const T* gates, const T* ups, T* out,
                                           i64 total, i64 size, i64 gate_row, i64 up_row) {
  const i64 index = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * WIDTH;
  if (index >= total) return;
  const i64 row = index / size, column = index - row * size;
  const Pack gate = load(gates + row * gate_row + column), up = load(ups + row * up_row + column);
  const Pack gradient = load(gradients + index);
  Pack of_gate, of_up;
  for (int i = 0; i < WIDTH; ++i) {
    const float g = wide(gate.at[i]), d = wide(gradient.at[i]);
    const float share = 1 / (1 + __expf(-g));
    put(of_gate.at[i], d * wide(up.at[i]) * share * (1 + g * (1 - share)));
    put(of_up.at[i], d * g * share);
  }
  T* const to = out + row * 2 * size + column;
  store(to, of_gate);
  store(to + size, of_up);
}
)cuda");

constexpr int64_t kThreads = 256;

GpuKernel::Grid grid_for(int64_t elements, int64_t width) {
  return {.blocks = groups_of(elements, kThreads * width), .threads = kThreads};
}

}  // namespace

at::Tensor swiglu_on_gpu(const at::Tensor& gate, const at::Tensor& up) {
  const int64_t size = gate.size(1);
  const at::Tensor out = at::empty(gate.sizes(), gate.options());
  const int64_t width = pack_width({gate, up, out}, size);
  kForward.launch(gate.device(), {.dtype = gate.scalar_type(), .width = width},
                  grid_for(out.numel(), width), gate.const_data_ptr(), up.const_data_ptr(),
                  out.mutable_data_ptr(), out.numel(), size, gate.stride(0), up.stride(0));
  return out;
}

at::Tensor swiglu_backward_on_gpu(const at::Tensor& gradient, const at::Tensor& gate,
                                  const at::Tensor& up) {
  const int64_t size = gate.size(1);
  const at::Tensor given = gradient.contiguous();
  const at::Tensor out = at::empty({gate.size(0), 2 * size}, gate.options());
  const int64_t width = pack_width({given, gate, up, out}, size);
  kBackward.launch(gate.device(), {.dtype = gate.scalar_type(), .width = width},
                   grid_for(given.numel(), width), given.const_data_ptr(), gate.const_data_ptr(),
                   up.const_data_ptr(), out.mutable_data_ptr(), given.numel(), size, gate.stride(0),
                   up.stride(0));
  return out;
}

}  // namespace tessera
