#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/parallel/tensor/vocabulary.h"

namespace tessera TSR_API {

/// A head and its loss.
struct HeadLossOptions {
  /// With an ignore_index, ConfigError for logits in pieces unless count_ignored is set.
  VocabularyLossOptions loss = {};
  int64_t piece_bytes = int64_t{256} << 20;  // The most bytes of logits that exist at a time.
};

/// **Collective.** vocabulary_loss() of column_linear(x, weight), the loss of a head over a
/// vocabulary. If the logits had more than `piece_bytes` bytes, they never exist as a whole: the
/// forward pass computes them piece by piece along the positions, with the gradients of x and
/// weight, which the backward pass only scales. Rounding then differs in the last bits, and
/// Pass::deferred and Pass::kept are not used.
///
/// Logits of float16 exist as a whole, since their gradients need the loss scale.
at::Tensor head_loss(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                     const VocabularyRows& vocabulary, const Pass& pass,
                     const HeadLossOptions& options);

}  // namespace tessera
