#include "tessera/layer/rotary.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/format/llama_config.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/kernel/rotary.h"
#include "tessera/tensor/copied_to.h"

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

// Kernels want the elements of a head beside each other.
at::Tensor with_whole_heads(const at::Tensor& heads) {
  return heads.stride(-1) == 1 ? heads : heads.contiguous();
}

// [first·cos - second·sin, second·cos + first·sin]; `sign` -1 rotates in the other direction.
at::Tensor rotated(const at::Tensor& heads, const at::Tensor& cosines, const at::Tensor& sines,
                   double sign) {
  const int64_t pairs = heads.size(-1) / 2;
  const at::Tensor out = at::empty_like(heads, at::MemoryFormat::Contiguous);
  if (has_kernels(heads)) {
    rotate_on_gpu(with_whole_heads(heads), cosines, sines, sign, out);
    return out;
  }
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

// Queries and keys in place if nothing else reads them.
class RotatedHeads : public autograd::Function<RotatedHeads> {
 public:
  static autograd::variable_list forward(autograd::AutogradContext* context, const at::Tensor& q,
                                         const at::Tensor& k, const at::Tensor& v,
                                         const RotaryTable& table, bool reuses) {
    context->saved_data["cosines"] = table.cosines;
    context->saved_data["sines"] = table.sines;
    context->saved_data["keys"] = k.size(2);
    const auto turned = [&](const at::Tensor& heads) {
      if (!reuses || heads.stride(-1) != 1) return rotated(heads, table.cosines, table.sines, 1);
      rotate_on_gpu(heads, table.cosines, table.sines, 1, heads);
      return heads;
    };
    return {turned(q), turned(k), v};
  }

  static autograd::variable_list backward(autograd::AutogradContext* context,
                                          const autograd::variable_list& gradients) {
    const at::Tensor cosines = context->saved_data["cosines"].toTensor();
    const at::Tensor sines = context->saved_data["sines"].toTensor();
    const at::Tensor& like = gradients[0];
    const int64_t queries = like.size(2);
    const int64_t keys = context->saved_data["keys"].toInt();
    const at::Tensor all =
        at::empty({like.size(0), like.size(1), queries + 2 * keys, like.size(3)}, like.options());
    const at::Tensor q = all.narrow(2, 0, queries);
    const at::Tensor k = all.narrow(2, queries, keys);
    const at::Tensor v = all.narrow(2, queries + keys, keys);
    rotate_on_gpu(with_whole_heads(gradients[0]), cosines, sines, -1, q);
    rotate_on_gpu(with_whole_heads(gradients[1]), cosines, sines, -1, k);
    copy_heads_on_gpu(with_whole_heads(gradients[2]), v);
    return {q, k, v, {}, {}};
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
  const at::Tensor places = copied_to(table.cosines.device(), positions.flatten());
  const auto picked = [&](const at::Tensor& all) {
    return all.index_select(0, places).unflatten(0, positions.sizes());
  };
  return {picked(table.cosines), picked(table.sines)};
}

at::Tensor rotate(const at::Tensor& heads, const RotaryTable& table) {
  if (!at::GradMode::is_enabled()) return rotated(heads, table.cosines, table.sines, 1);
  return Rotation::apply(heads, table.cosines, table.sines);
}

Heads rotate(const Heads& heads, const RotaryTable& table, bool reuses) {
  const auto& [q, k, v] = heads;
  if (!has_kernels(q)) return {rotate(q, table), rotate(k, table), v};
  const autograd::variable_list made = RotatedHeads::apply(q, k, v, table, reuses);
  return {made[0], made[1], made[2]};
}

}  // namespace tessera
