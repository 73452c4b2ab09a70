#include "tessera/layer/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/format/llama_config.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;

// Low frequencies are divided by `factor`, high ones stay, with a smooth transition between.
double scaled(double frequency, const Llama3RopeScaling& scaling) {
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double turns = original * frequency / (2 * std::numbers::pi);
  const double span = scaling.high_freq_factor - scaling.low_freq_factor;
  const double kept = std::clamp((turns - scaling.low_freq_factor) / span, 0.0, 1.0);
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

// [first·cos - second·sin, second·cos + first·sin]; `sign` -1 rotates in the other direction.
at::Tensor rotated(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
                   double sign) {
  const int64_t pairs = heads.size(-1) / 2;
  const at::Tensor out = at::empty_like(heads, at::MemoryFormat::Contiguous);
  const auto half = [&](const at::Tensor& x, int64_t which) {
    return x.narrow(-1, which * pairs, pairs);
  };
  at::Tensor first = half(out, 0);
  at::Tensor second = half(out, 1);
  at::mul_out(first, half(heads, 0), cosines).addcmul_(half(heads, 1), sines, -sign);
  at::mul_out(second, half(heads, 1), cosines).addcmul_(half(heads, 0), sines, sign);
  return out;
}

// The backward is the inverse rotation, so nothing of the forward pass must be saved.
class Rotation : public autograd::Function<Rotation> {
 public:
  static at::Tensor forward(autograd::AutogradContext* context, const at::Tensor& heads,
                            const at::Tensor& cosines, const at::Tensor& sines) {
    context->saved_data["cosines"] = cosines;
    context->saved_data["sines"] = sines;
    return rotated(heads, cosines, sines, 1);
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const at::Tensor cosines = context->saved_data["cosines"].toTensor();
    const at::Tensor sines = context->saved_data["sines"].toTensor();
    return {rotated(gradients[0], cosines, sines, -1), {}, {}};
  }
};

}  // namespace

std::vector<double> rotary_frequencies(const LlamaConfig& config) {
  const int64_t pairs = config.head_dim / 2;
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const double exponent = -static_cast<double>(pair) / static_cast<double>(pairs);
    const double frequency = std::pow(config.rope_theta, exponent);
    frequencies.push_back(config.rope_scaling ? scaled(frequency, *config.rope_scaling)
                                              : frequency);
  }
  return frequencies;
}

RotaryTable rotary_table(const std::vector<double>& frequencies, int64_t positions,
                         const at::TensorOptions& options) {
  const at::Tensor position = at::arange(positions, at::kDouble);
  const at::Tensor angles = at::outer(position, at::tensor(frequencies, at::kDouble)).unsqueeze(1);
  return {angles.cos().to(options), angles.sin().to(options)};
}

RotaryTable rotary_table_at(const RotaryTable& table, const at::Tensor& positions) {
  const auto picked = [&](const at::Tensor& all) {
    return all.index_select(0, positions.flatten()).unflatten(0, positions.sizes());
  };
  return {picked(table.cosines), picked(table.sines)};
}

at::Tensor rotate(const at::Tensor& heads, const RotaryTable& table) {
  return Rotation::apply(heads, table.cosines, table.sines);
}

}  // namespace tessera
