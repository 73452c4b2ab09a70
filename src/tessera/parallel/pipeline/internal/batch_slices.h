#pragma once

#include <cstdint>
#include <vector>

#include "tessera/parallel/pipeline/pipeline.h"

namespace tessera::pipeline::detail {

/// A batch, split into microbatches along dimension 0.
class BatchSlices {
 public:
  BatchSlices(const PipelineBatch& batch, int64_t rows, int64_t microbatches);

  Tensors inputs(int32_t microbatch) const;
  Keywords keywords(int32_t microbatch) const;
  at::Tensor target(int32_t microbatch) const { return slice(batch_.target, microbatch); }
  /// Rows of the microbatch / rows of the batch.
  double share(int32_t microbatch) const;

 private:
  at::Tensor slice(const at::Tensor& whole, int32_t microbatch) const;

  const PipelineBatch& batch_;
  int64_t rows_;
  std::vector<int64_t> sizes_;   // Rows per microbatch.
  std::vector<int64_t> begins_;  // First row per microbatch.
};

}  // namespace tessera::pipeline::detail
