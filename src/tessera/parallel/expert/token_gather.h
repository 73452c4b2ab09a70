#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// Dispatch::kAllGather: every rank of ep and etp gathers the tokens of all of them, computes those
/// for its own experts, and a reduce-scatter adds up the results. Both are **collective**, in the
/// forward and in the backward pass. Ranks may have different numbers of tokens, or none.
class TokenGather {
 public:
  /// **Collective.** Waits for the other ranks, but not for a GPU.
  TokenGather(int64_t tokens, const ExpertParallel& parallel);

  /// The tokens of all ranks, from [tokens, …].
  at::Tensor gather(const at::Tensor& own) const;
  /// This rank's tokens of the sum over all ranks.
  at::Tensor reduce(const at::Tensor& all) const;

 private:
  at::Tensor gathered(at::Tensor x) const;
  at::Tensor scattered(at::Tensor x) const;

  ExpertParallel parallel_;
  std::vector<int64_t> in_ep_;   // Tokens by rank of ep.
  std::vector<int64_t> in_etp_;  // Tokens by rank of etp, of its whole ep group.
};

}  // namespace tessera
