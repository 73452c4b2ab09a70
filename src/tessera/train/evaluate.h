#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/config/train_config.h"

namespace tessera TSR_API {

/// How well a model predicts texts.
struct Evaluation {
  double loss = 0;                              // Mean over all targets, in nats.
  int64_t tokens = 0;                           // Targets: all tokens but the first of each source.
  std::optional<int64_t> bytes = std::nullopt;  // Of their text, if that is known; on rank 0 only.
  bool is_first_rank = false;                   // Whether this process is rank 0.

  /// Per target: e to the power of the loss.
  double perplexity() const;
  /// The summed loss in bits, per byte of text. Nothing if `bytes` is unknown or 0.
  std::optional<double> bits_per_byte() const;
};

/// ConfigError if the model does not fit the ranks, or the device is not available.
void check_evaluation(const TrainConfig& config);

/// **Collective.** The loss of the model over all of the data, in rows of data.seq tokens without
/// overlap: on any layout the same, up to rounding. The weights are those of `checkpoint`, unless
/// it is "", or else of config.model. One process must have called encode_texts() before.
/// `progress` gets the share that is done.
Evaluation evaluate(const TrainConfig& config, const std::string& checkpoint,
                    const std::function<void(double share)>& progress = {});

}  // namespace tessera
