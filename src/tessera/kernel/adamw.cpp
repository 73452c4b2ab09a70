#include "tessera/kernel/adamw.h"

#include "tessera/base/text.h"
#include "tessera/kernel/chunks.h"
#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

constexpr GpuKernel kAdamW("adamw", kChunkSource, R"cuda(
struct Entry {
  T* parameter;
  const T* gradient;
  float* weight;
  float* average;
  float* square_average;
  const float* step;
  i64 size, first_block;
};
struct Rates { float learning_rate, beta1, beta2, weight_decay, eps; };
struct alignas(4 * WIDTH) Floats { float at[WIDTH]; };

__device__ void update(float gradient, float& weight, float& average, float& square, const Rates& rates,
                       float step_size, float root) {
  weight -= rates.learning_rate * rates.weight_decay * weight;
  average += (gradient - average) * (1 - rates.beta1);
  square = rates.beta2 * square + (1 - rates.beta2) * gradient * gradient;
  weight -= step_size * average / (sqrtf(square) / root + rates.eps);
}

extern "C" __global__ void adamw(const Entry* entries, int count, const float* gradient_factor, Rates rates) {
  const float factor = *gradient_factor;
  if (!isfinite(factor)) return;
  __shared__ Entry shared;
  __shared__ float step_size, root;
  if (threadIdx.x == 0) {
    shared = entry_of(entries, count, i64(blockIdx.x));
    const double step = *shared.step;
    step_size = rates.learning_rate / (1 - pow(double(rates.beta1), step));
    root = sqrt(1 - pow(double(rates.beta2), step));
  }
  __syncthreads();
  const Entry entry = shared;
  const i64 begin = (blockIdx.x - entry.first_block) * CHUNK;
  const i64 end = begin + CHUNK < entry.size ? begin + CHUNK : entry.size;
  for (i64 at = begin + threadIdx.x * WIDTH; at < end; at += blockDim.x * WIDTH) {
    if (at + WIDTH <= end) {
      const Pack gradient = load(entry.gradient + at);
      Floats weight = *reinterpret_cast<Floats*>(entry.weight + at);
      Floats average = *reinterpret_cast<Floats*>(entry.average + at);
      Floats square = *reinterpret_cast<Floats*>(entry.square_average + at);
      Pack rounded;
      for (int i = 0; i < WIDTH; ++i) {
        update(wide(gradient.at[i]) * factor, weight.at[i], average.at[i], square.at[i], rates, step_size, root);
        put(rounded.at[i], weight.at[i]);
      }
      *reinterpret_cast<Floats*>(entry.weight + at) = weight;
      *reinterpret_cast<Floats*>(entry.average + at) = average;
      *reinterpret_cast<Floats*>(entry.square_average + at) = square;
      store(entry.parameter + at, rounded);
    } else {
      for (i64 i = at; i < end; ++i) {
        update(wide(entry.gradient[i]) * factor, entry.weight[i], entry.average[i],
               entry.square_average[i], rates, step_size, root);
        put(entry.parameter[i], entry.weight[i]);
      }
    }
  }
}
)cuda");

struct Rates {
  float learning_rate, beta1, beta2, weight_decay, eps;
};

}  // namespace

void adamw_on_gpu(const std::vector<GpuAdamWTensor>& tensors, const GpuAdamWRates& rates) {
  if (tensors.empty()) return;
  std::vector<SideBySide> entries;
  for (const GpuAdamWTensor& one : tensors) {
    entries.push_back(
        {one.parameter, one.gradient, one.weight, one.average, one.square_average, one.step});
  }
  const Chunks chunks = chunks_of(entries);
  const auto narrow = [](double rate) { return static_cast<float>(rate); };
  kAdamW.launch(tensors[0].parameter.device(),
                {.dtype = tensors[0].parameter.scalar_type(),
                 .width = chunks.width,
                 .constants = concat("-DCHUNK=", kChunk)},
                {.blocks = chunks.blocks}, chunks.rows.const_data_ptr(),
                static_cast<int32_t>(chunks.count), rates.gradient_factor.const_data_ptr(),
                Rates{narrow(rates.learning_rate), narrow(rates.beta1), narrow(rates.beta2),
                      narrow(rates.weight_decay), narrow(rates.eps)});
}

}  // namespace tessera
