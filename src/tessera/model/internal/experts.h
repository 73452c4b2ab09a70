#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>

#include "tessera/format/llama_config.h"
#include "tessera/layer/grouped_linear.h"
#include "tessera/layer/router.h"
#include "tessera/layer/unit.h"

namespace tessera::model::detail {

/// A router and SwiGLU experts, in the place of a feed-forward layer.
struct Experts {
  Experts(const LlamaConfig& config, int64_t layer, const at::TensorOptions& options);

  // [B, S, D] → [B, S, D]
  at::Tensor operator()(const at::Tensor& x, const Pass& pass) const;
  void list(const std::string& name, Parameters& to) const;

  /// The weighted sums of the experts' results for tokens [tokens, D]: rows go to the ranks of
  /// their experts, or all ranks gather all tokens.
  at::Tensor by_rows(const at::Tensor& x, const Routing& routing, const Pass& pass) const;
  at::Tensor by_tokens(const at::Tensor& x, const Routing& routing, const Pass& pass) const;
  /// The results of this rank's experts for their rows.
  at::Tensor compute(const at::Tensor& rows, std::span<const int64_t> counts,
                     const Pass& pass) const;

  std::string model_type;
  int64_t index;  // Among the layers with experts.
  RouterOptions options;
  at::Tensor router;             // [experts, D]
  ExpertWeights gate, up, down;  // Of all experts; those of other ranks have no memory.
};

}  // namespace tessera::model::detail
