#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// This rank's rows of a vocabulary. The parts of the ranks may be uneven or empty, so that no
/// vocabulary needs padding.
struct VocabularyRows {
  Span rows = {};          // Token ids; empty if this rank holds none.
  int64_t vocab_size = 0;  // Of all ranks.
};

/// The rows of this rank by the rule of chunk(); all of them without tensor parallelism.
VocabularyRows vocabulary_rows(int64_t vocab_size, const Pass& pass);

/// **Collective.** The embeddings of `tokens` [batch, positions], which are the same on all ranks;
/// `weight` holds this rank's rows. With TensorParallel::sequence the result holds this rank's
/// positions (reduce-scatter), otherwise all (all-reduce). ConfigError on all ranks for a token
/// outside of the vocabulary, and if the group's size does not divide the positions.
///
/// Without tensor parallelism the same as embed(), to the last bit. Pass::kept keeps the sum.
at::Tensor vocabulary_embed(const at::Tensor& tokens, const at::Tensor& weight,
                            const VocabularyRows& vocabulary, const Pass& pass = {});

/// Which positions have a loss, and how losses are added up.
struct VocabularyLossOptions {
  /// Positions with this target have no loss and no gradient, and do not count in the mean.
  std::optional<int64_t> ignore_index = std::nullopt;
  /// Positions without a loss count in the mean after all, as zeros.
  bool count_ignored = false;
  /// In [0, 1]: how much of the target's probability is spread evenly over the vocabulary.
  double label_smoothing = 0;
};

/// **Collective.** The mean cross-entropy of logits [batch, positions, this rank's rows], at least
/// in float32. Every rank gets the loss of the whole vocabulary and the gradient of its own logits;
/// no rank gathers logits. The forward pass sends two all-reduces of a few numbers per position,
/// the backward pass nothing. Where there are kernels (has_kernels()), logits of 16 bits are not
/// copied to float32, and their gradient may take their place. Targets [batch, positions] are the
/// same on all ranks and checked like tokens. NaN if all targets are ignored.
///
/// Without tensor parallelism and with default options the same as token_loss(), to the last bit.
at::Tensor vocabulary_loss(const at::Tensor& logits, const at::Tensor& targets,
                           const VocabularyRows& vocabulary, const Pass& pass = {},
                           const VocabularyLossOptions& options = {});

}  // namespace tessera
