#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "tessera/format/llama_config.h"
#include "tessera/layer/grouped_linear.h"
#include "tessera/layer/router.h"
#include "tessera/layer/unit.h"
#include "tessera/model/internal/swiglu.h"

namespace tessera::model::detail {

/// An expert that every token visits; a gate weighs its result.
struct SharedExpert {
  SharedExpert(const LlamaConfig& config, const at::TensorOptions& options);

  // [B, S, D] → [B, S, D]
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;
  void list(const std::string& block, Parameters& to) const;

  SwiGlu mlp;
  at::Tensor gate;  // [1, D]
};

/// A router and SwiGLU experts, in the place of a feed-forward layer.
struct Experts {
  Experts(const LlamaConfig& config, int64_t layer, const at::TensorOptions& options);

  // [B, S, D] → [B, S, D]
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;
  void list(const std::string& name, Parameters& to) const;

  /// The weighted sums of the experts' results for tokens [tokens, D]: rows go to the ranks of
  /// their experts, or all ranks gather all tokens. `meanwhile` runs while rows are in flight.
  at::Tensor by_rows(const at::Tensor& x, const Routing& routing, const Pass& pass,
                     const std::function<void()>& meanwhile) const;
  at::Tensor by_tokens(const at::Tensor& x, const Routing& routing, const Pass& pass) const;
  /// The results of this rank's experts for their rows.
  at::Tensor compute(const at::Tensor& rows, std::span<const int64_t> counts,
                     const Pass& pass) const;

  std::string model_type;
  int64_t index;  // Among the layers with experts.
  RouterOptions options;
  at::Tensor router;             // [experts, D]
  ExpertWeights gate, up, down;  // Of all experts; those of other ranks have no memory.
  std::optional<SharedExpert> shared = std::nullopt;
};

}  // namespace tessera::model::detail
