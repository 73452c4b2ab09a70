#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/format/llama_config.h"
#include "tessera/layer/norm.h"
#include "tessera/layer/rotary.h"
#include "tessera/layer/unit.h"
#include "tessera/model/internal/experts.h"
#include "tessera/model/internal/swiglu.h"

/// The layers of a Llama. Shapes in comments: B batch, S positions, D hidden_size, H heads, K
/// key-value heads, h head_dim, V vocab_size.
namespace tessera::model::detail {

/// StateError if the tensor has no memory. One tensor per unit is enough: strategies fill and free
/// whole units.
void check_filled(const at::Tensor& tensor);

/// The rotary angles of the last positions, shared by all blocks.
class Rotary {
 public:
  explicit Rotary(const LlamaConfig& config) : frequencies_(rotary_frequencies(config)) {}

  /// For [B, S, H, h] at Pass::positions. Only recomputed for other positions, another length,
  /// dtype or device.
  const RotaryTable& table_for(const at::Tensor& heads, const at::Tensor& positions);

 private:
  bool has_table(const at::TensorOptions& options) const;
  void ensure_table(int64_t positions, const at::TensorOptions& options);
  void ensure_long_table(int64_t positions, const at::TensorOptions& options);

  std::vector<double> frequencies_;
  RotaryTable table_ = {};     // Of consecutive positions.
  at::Tensor positions_ = {};  // Of `picked_`.
  RotaryTable picked_ = {};
};

struct Norm {
  Norm(int64_t size, double eps, const at::TensorOptions& options);

  at::Tensor operator()(const at::Tensor& x) const;
  /// Of x + added, with the sum. `added` may be undefined.
  NormedSum operator()(const at::Tensor& x, const at::Tensor& added) const;

  at::Tensor weight;
  double eps;
};

struct Attention {
  Attention(const LlamaConfig& config, const at::TensorOptions& options);

  // [B, S, D] → [B, S, D]; with sequence parallelism a rank has some of the positions.
  at::Tensor operator()(const at::Tensor& x, Rotary& rotary, const Pass& pass) const;
  void list(const std::string& name, Parameters& to) const;

  int64_t head_dim, num_heads, num_kv_heads, window;
  Projection q, k, v, o;
  std::optional<Norm> q_norm = std::nullopt, k_norm = std::nullopt;  // Of each head.
};

struct Block {
  Block(const LlamaConfig& config, int64_t layer, const at::TensorOptions& options);

  // [B, S, D] → [B, S, D]
  at::Tensor operator()(const at::Tensor& x, Rotary& rotary, const Pass& pass) const;
  void list(const std::string& name, Parameters& to) const;

  Attention attention;
  std::variant<SwiGlu, Experts> mlp;
  Norm before_attention, before_mlp;
};

}  // namespace tessera::model::detail
