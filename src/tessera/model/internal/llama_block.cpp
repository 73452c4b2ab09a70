#include "tessera/model/internal/llama_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

#include "tessera/base/check.h"
#include "tessera/layer/attention.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/norm.h"
#include "tessera/tensor/unallocated.h"

namespace tessera::model::detail {

at::Tensor make_parameter(at::IntArrayRef shape, const at::TensorOptions& options) {
  return unallocated(shape, options).requires_grad_();
}

void check_filled(const at::Tensor& tensor) {
  if (!is_unallocated(tensor)) return;
  throw StateError("the Llama has no weights yet; call load() or initialize() first");
}

Projection::Projection(int64_t inputs, int64_t outputs, bool has_bias, CutBy cut,
                       const at::TensorOptions& options)
    : weight(make_parameter({outputs, inputs}, options)), cut(cut) {
  if (has_bias) bias = make_parameter({outputs}, options);
}

at::Tensor Projection::operator()(const at::Tensor& x, const Pass& pass) const {
  return linear(x, weight, bias, pass);
}

// A layer sharded by its inputs adds its bias once, to the sum.
void Projection::list(const std::string& name, Parameters& to) const {
  const bool by_outputs = cut == CutBy::kOutputs;
  to.push_back({name + ".weight", weight, by_outputs ? 0 : 1});
  if (!bias.defined()) return;
  to.push_back({name + ".bias", bias, by_outputs ? std::optional<size_t>(0) : std::nullopt});
}

Attention::Attention(const LlamaConfig& c, const at::TensorOptions& options)
    : head_dim(c.head_dim),
      q(c.hidden_size, c.num_attention_heads * c.head_dim, c.attention_bias, CutBy::kOutputs,
        options),
      k(c.hidden_size, c.num_key_value_heads * c.head_dim, c.attention_bias, CutBy::kOutputs,
        options),
      v(c.hidden_size, c.num_key_value_heads * c.head_dim, c.attention_bias, CutBy::kOutputs,
        options),
      o(c.num_attention_heads * c.head_dim, c.hidden_size, c.attention_bias, CutBy::kInputs,
        options) {}

at::Tensor Attention::operator()(const at::Tensor& x, const RotaryTable& rotary,
                                 const Pass& pass) const {
  const auto heads = [&](const Projection& project) {  // [B, S, H or K, h]
    return project(x, pass).unflatten(-1, {-1, head_dim});
  };
  const at::Tensor mixed =
      causal_attention(rotate(heads(q), rotary), rotate(heads(k), rotary), heads(v), pass);
  return o(mixed.flatten(2), pass);
}

void Attention::list(const std::string& name, Parameters& to) const {
  q.list(name + ".q_proj", to);
  k.list(name + ".k_proj", to);
  v.list(name + ".v_proj", to);
  o.list(name + ".o_proj", to);
}

SwiGlu::SwiGlu(const LlamaConfig& c, const at::TensorOptions& options)
    : gate(c.hidden_size, c.intermediate_size, c.mlp_bias, CutBy::kOutputs, options),
      up(c.hidden_size, c.intermediate_size, c.mlp_bias, CutBy::kOutputs, options),
      down(c.intermediate_size, c.hidden_size, c.mlp_bias, CutBy::kInputs, options) {}

at::Tensor SwiGlu::operator()(const at::Tensor& x, const Pass& pass) const {
  return down(at::silu(gate(x, pass)) * up(x, pass), pass);
}

void SwiGlu::list(const std::string& name, Parameters& to) const {
  gate.list(name + ".gate_proj", to);
  up.list(name + ".up_proj", to);
  down.list(name + ".down_proj", to);
}

Norm::Norm(const LlamaConfig& config, const at::TensorOptions& options)
    : weight(make_parameter({config.hidden_size}, options)), eps(config.rms_norm_eps) {}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  return rms_norm(x, weight, eps);
}

Block::Block(const LlamaConfig& config, const at::TensorOptions& options)
    : attention(config, options),
      mlp(config, options),
      before_attention(config, options),
      before_mlp(config, options) {}

at::Tensor Block::operator()(const at::Tensor& x, const RotaryTable& rotary,
                             const Pass& pass) const {
  const at::Tensor attended = x + attention(before_attention(x), rotary, pass);
  return attended + mlp(before_mlp(attended), pass);
}

void Block::list(const std::string& name, Parameters& to) const {
  attention.list(name + ".self_attn", to);
  mlp.list(name + ".mlp", to);
  to.push_back({name + ".input_layernorm.weight", before_attention.weight});
  to.push_back({name + ".post_attention_layernorm.weight", before_mlp.weight});
}

}  // namespace tessera::model::detail
