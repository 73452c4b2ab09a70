#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/layer/unit.h"
#include "tessera/parallel/tensor/column_linear.h"

namespace tessera::model::detail {

/// A parameter without memory.
at::Tensor make_parameter(at::IntArrayRef shape, const at::TensorOptions& options);

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

/// A feed-forward layer that tensor parallelism cuts by its width.
struct SwiGlu {
  SwiGlu(int64_t hidden, int64_t width, bool has_bias, const at::TensorOptions& options);

  // [batch, positions, hidden] → [batch, positions, width] → [batch, positions, hidden]
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;
  void list(const std::string& name, Parameters& to) const;

  Projection gate, up, down;
};

}  // namespace tessera::model::detail
