#include "tessera/kernel/sgd.h"

#include "tessera/kernel/chunks.h"

namespace tessera {
namespace {

constexpr GpuKernel kSgd("sgd", kChunkSource, R"cuda(
struct Entry {
  T* parameter;
  const T* gradient;
  float* weight;
  float* momentum;
  i64 size, first_block;
};
struct Rates {
  float learning_rate, momentum, weight_decay;
  int nesterov;
};

struct Update {
  Entry entry;
  Rates rates;
  float factor;

  __device__ void one(float gradient, float& weight, float& momentum) const {
    gradient += rates.weight_decay * weight;
    momentum = rates.momentum * momentum + gradient;
    weight -= rates.learning_rate * (rates.nesterov ? gradient + rates.momentum * momentum : momentum);
  }

  template <int N>
  __device__ void operator()(Count<N>, i64 at) const {
    const auto gradient = load<N>(entry.gradient + at);
    auto weight = load<N>(entry.weight + at);
    Neighbours<float, N> momentum{};
    if (rates.momentum != 0) momentum = load<N>(entry.momentum + at);
    for (int i = 0; i < N; ++i) one(scaled(gradient.at[i], factor), weight.at[i], momentum.at[i]);
    if (rates.momentum != 0) store(entry.momentum + at, momentum);
    store_weight(entry, at, weight);
  }
};

extern "C" __global__ void sgd(const Entry* entries, int count, const float* gradient_factor, Rates rates) {
  const float factor = *gradient_factor;
  if (!isfinite(factor)) return;
  const Entry entry = entry_of_block(entries, count);
  const Update update{entry, rates, factor};
  for_each_pack(entry, update);
}
)cuda");

struct Rates {
  float learning_rate, momentum, weight_decay;
  int32_t nesterov;
};

}  // namespace

void sgd_on_gpu(const std::vector<GpuSgdTensor>& tensors, const GpuSgdRates& rates) {
  if (tensors.empty()) return;
  std::vector<SideBySide> entries;
  for (const auto& [parameter, gradient, weight, momentum] : tensors) {
    // The kernel does not read a momentum of 0; each row of the table has an address for it.
    entries.push_back({parameter, gradient, weight, momentum.defined() ? momentum : weight});
  }
  const auto narrow = [](double rate) { return static_cast<float>(rate); };
  launch_on(chunks_of(entries), kSgd, tensors[0].parameter.scalar_type(),
            rates.gradient_factor.const_data_ptr(),
            Rates{narrow(rates.learning_rate), narrow(rates.momentum), narrow(rates.weight_decay),
                  rates.nesterov ? 1 : 0});
}

}  // namespace tessera
