#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/format/llama_config.h"
#include "tessera/layer/rotary.h"
#include "tessera/layer/unit.h"
#include "tessera/model/internal/experts.h"
#include "tessera/parallel/tensor/column_linear.h"

/// The layers of a Llama. Shapes in comments: B batch, S positions, D hidden_size, H heads, K
/// key-value heads, h head_dim, F intermediate_size, V vocab_size.
namespace tessera::model::detail {

/// A parameter without memory.
at::Tensor make_parameter(at::IntArrayRef shape, const at::TensorOptions& options);

/// StateError if the tensor has no memory. One tensor per unit is enough: strategies fill and free
/// whole units.
void check_filled(const at::Tensor& tensor);

/// Which dimension of a linear layer's weight tensor parallelism shards.
enum class CutBy { kOutputs, kInputs };

struct Projection {
  Projection(int64_t inputs, int64_t outputs, bool has_bias, CutBy cut,
             const at::TensorOptions& options);

  /// `heads` stay whole when the layer is cut.
  void list(const std::string& name, Parameters& to,
            std::optional<int64_t> heads = std::nullopt) const;
  LinearWeights weights() const { return {weight, bias}; }

  at::Tensor weight;
  at::Tensor bias;  // Undefined if there is none.
  CutBy cut;
};

/// The rotary angles of the last positions, shared by all blocks.
class Rotary {
 public:
  explicit Rotary(const LlamaConfig& config) : frequencies_(rotary_frequencies(config)) {}

  /// For [B, S, H, h] at Pass::positions. Only recomputed for other positions, another length,
  /// dtype or device.
  const RotaryTable& table_for(const at::Tensor& heads, const at::Tensor& positions);

 private:
  void ensure_table(int64_t positions, const at::TensorOptions& options);

  std::vector<double> frequencies_;
  RotaryTable table_ = {};     // Of consecutive positions.
  at::Tensor positions_ = {};  // Of `picked_`.
  RotaryTable picked_ = {};
};

struct Norm {
  Norm(int64_t size, double eps, const at::TensorOptions& options);

  at::Tensor operator()(const at::Tensor& x) const;

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

struct SwiGlu {
  SwiGlu(const LlamaConfig& config, const at::TensorOptions& options);

  // [B, S, D] → [B, S, F] → [B, S, D]
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;
  void list(const std::string& name, Parameters& to) const;

  Projection gate, up, down;
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
