#include "tessera/model/internal/llama_block.h"

#include <ATen/TensorOperators.h>

#include <array>
#include <bit>

#include "tessera/base/check.h"
#include "tessera/layer/window_attention.h"
#include "tessera/parallel/tensor/row_linear.h"
#include "tessera/tensor/unallocated.h"

namespace tessera::model::detail {

void check_filled(const at::Tensor& tensor) {
  if (!is_unallocated(tensor)) return;
  throw StateError("the Llama has no weights yet; call load() or initialize() first");
}

bool Rotary::has_table(const at::TensorOptions& options) const {
  const at::Tensor& known = table_.cosines;
  return known.defined() && known.dtype() == options.dtype() && known.device() == options.device();
}

void Rotary::ensure_table(int64_t positions, const at::TensorOptions& options) {
  if (has_table(options) && table_.cosines.size(0) == positions) return;
  table_ = rotary_table(frequencies_, positions, options);
  positions_ = at::Tensor();
}

// Twice as long each time, since a text that is generated needs one more position per token.
void Rotary::ensure_long_table(int64_t positions, const at::TensorOptions& options) {
  if (has_table(options) && table_.cosines.size(0) >= positions) return;
  ensure_table(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(positions))), options);
}

const RotaryTable& Rotary::table_for(const at::Tensor& heads, const at::Tensor& positions) {
  if (!positions.defined()) {
    ensure_table(heads.size(1), heads.options());
    return table_;
  }
  const bool is_picked = positions_.is_same(positions) &&
                         picked_.cosines.dtype() == heads.dtype() &&
                         picked_.cosines.device() == heads.device();
  if (is_picked) return picked_;
  ensure_long_table(positions.max().item<int64_t>() + 1, heads.options());
  picked_ = rotary_table_at(table_, positions);
  positions_ = positions;
  return picked_;
}

Attention::Attention(const LlamaConfig& c, const at::TensorOptions& options)
    : head_dim(c.head_dim),
      num_heads(c.num_attention_heads),
      num_kv_heads(c.num_key_value_heads),
      window(c.sliding_window),
      q(c.hidden_size, c.num_attention_heads * c.head_dim, c.attention_bias || c.qkv_bias,
        CutBy::kOutputs, options),
      k(c.hidden_size, c.num_key_value_heads * c.head_dim, c.attention_bias || c.qkv_bias,
        CutBy::kOutputs, options),
      v(c.hidden_size, c.num_key_value_heads * c.head_dim, c.attention_bias || c.qkv_bias,
        CutBy::kOutputs, options),
      o(c.num_attention_heads * c.head_dim, c.hidden_size, c.attention_bias, CutBy::kInputs,
        options) {
  if (!c.qk_norm) return;
  q_norm.emplace(c.head_dim, c.rms_norm_eps, options);
  k_norm.emplace(c.head_dim, c.rms_norm_eps, options);
}

at::Tensor Attention::operator()(const at::Tensor& x, Rotary& rotary, const Pass& pass) const {
  std::vector<at::Tensor> heads =
      column_linear(x, std::array{q.weights(), k.weights(), v.weights()}, pass);
  for (at::Tensor& part : heads) part = part.unflatten(-1, {-1, head_dim});  // [B, S, H or K, h]
  if (q_norm) heads[0] = (*q_norm)(heads[0]);
  if (k_norm) heads[1] = (*k_norm)(heads[1]);
  const RotaryTable& table = rotary.table_for(heads[0], pass.positions);
  // What is kept for a second run must stay as it is.
  const auto [queries, keys, values] =
      rotate({heads[0], heads[1], heads[2]}, table, /*reuses=*/pass.kept == nullptr);
  const at::Tensor mixed = window_attention(queries, keys, values, window, pass);
  return row_linear(mixed.flatten(2), o.weight, o.bias, pass);
}

void Attention::list(const std::string& name, Parameters& to) const {
  q.list(name + ".q_proj", to, num_heads);
  k.list(name + ".k_proj", to, num_kv_heads);
  v.list(name + ".v_proj", to, num_kv_heads);
  o.list(name + ".o_proj", to, num_heads);
  // One block: tensor parallelism gives every rank all of it, for its own heads.
  const auto list_norm = [&](const char* which, const Norm& norm) {
    to.push_back({name + which, norm.weight, 0});
    to.back().tensor_blocks = 1;
  };
  if (q_norm) list_norm(".q_norm.weight", *q_norm);
  if (k_norm) list_norm(".k_norm.weight", *k_norm);
}

Norm::Norm(int64_t size, double eps, const at::TensorOptions& options)
    : weight(make_parameter({size}, options)), eps(eps) {}

at::Tensor Norm::operator()(const at::Tensor& x) const {
  return rms_norm(x, weight, eps);
}

NormedSum Norm::operator()(const at::Tensor& x, const at::Tensor& added) const {
  return normed_sum(x, added, weight, eps);
}

namespace {

std::variant<SwiGlu, Experts> make_mlp(const LlamaConfig& config, int64_t layer,
                                       const at::TensorOptions& options) {
  if (config.has_experts(layer)) return Experts(config, layer, options);
  return SwiGlu(config.hidden_size, config.intermediate_size, config.mlp_bias, options);
}

}  // namespace

Block::Block(const LlamaConfig& config, int64_t layer, const at::TensorOptions& options)
    : attention(config, options),
      mlp(make_mlp(config, layer, options)),
      before_attention(config.hidden_size, config.rms_norm_eps, options),
      before_mlp(config.hidden_size, config.rms_norm_eps, options) {}

at::Tensor Block::operator()(const at::Tensor& x, Rotary& rotary, const Pass& pass) const {
  const NormedSum in = before_attention(x, {});
  const NormedSum attended = before_mlp(in.sum, attention(in.normed, rotary, pass));
  const auto feed_forward = [&](const auto& layer) { return layer(attended.normed, pass); };
  return attended.sum + std::visit(feed_forward, mlp);
}

void Block::list(const std::string& name, Parameters& to) const {
  attention.list(name + ".self_attn", to);
  if (const auto* const dense = std::get_if<SwiGlu>(&mlp)) dense->list(name + ".mlp", to);
  if (const auto* const experts = std::get_if<Experts>(&mlp)) experts->list(name, to);
  to.push_back({name + ".input_layernorm.weight", before_attention.weight});
  to.push_back({name + ".post_attention_layernorm.weight", before_mlp.weight});
}

}  // namespace tessera::model::detail
