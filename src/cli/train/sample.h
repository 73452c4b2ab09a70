#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/config/train_config.h"

namespace tessera::cli {

/// What a model has written after a prompt.
struct TextSample {
  std::string prompt;
  std::string more = {};
  std::string command = {};  // That writes it again.
};

/// Lets the model that a run has saved continue a line of `tokens`, its data, for about a second at
/// most. Nothing if the run is not to do so, if its data is not text, or if that fails, which it
/// reports on stderr.
std::optional<TextSample> write_sample(const TrainConfig& config, int64_t vocab_size,
                                       const std::vector<int64_t>& tokens);

}  // namespace tessera::cli
