#include "tessera/kernel/adamw.h"

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

struct Update {
  Entry entry;
  Rates rates;
  float factor, step_size, root;

  __device__ void one(float gradient, float& weight, float& average, float& square) const {
    weight -= rates.learning_rate * rates.weight_decay * weight;
    average += (gradient - average) * (1 - rates.beta1);
    square = rates.beta2 * square + (1 - rates.beta2) * gradient * gradient;
    weight -= step_size * average / (sqrtf(square) / root + rates.eps);
  }

  template <int N>
  __device__ void operator()(Count<N>, i64 at) const {
    const auto gradient = load<N>(entry.gradient + at);
    auto weight = load<N>(entry.weight + at);
    auto average = load<N>(entry.average + at);
    auto square = load<N>(entry.square_average + at);
    for (int i = 0; i < N; ++i) one(scaled(gradient.at[i], factor), weight.at[i], average.at[i], square.at[i]);
    store(entry.average + at, average);
    store(entry.square_average + at, square);
    store_weight(entry, at, weight);
  }
};

extern "C" __global__ void adamw(const Entry* entries, int count, const float* gradient_factor, Rates rates) {
  const float factor = *gradient_factor;
  if (!isfinite(factor)) return;
  const Entry entry = entry_of_block(entries, count);
  __shared__ float step_size, root;
  if (threadIdx.x == 0) {
    const double step = *entry.step;
    step_size = rates.learning_rate / (1 - pow(double(rates.beta1), step));
    root = sqrt(1 - pow(double(rates.beta2), step));
  }
  __syncthreads();
  const Update update{entry, rates, factor, step_size, root};
  for_each_pack(entry, update);
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
  const auto narrow = [](double rate) { return static_cast<float>(rate); };
  launch_on(chunks_of(entries), kAdamW, tensors[0].parameter.scalar_type(),
            rates.gradient_factor.const_data_ptr(),
            Rates{narrow(rates.learning_rate), narrow(rates.beta1), narrow(rates.beta2),
                  narrow(rates.weight_decay), narrow(rates.eps)});
}

}  // namespace tessera
