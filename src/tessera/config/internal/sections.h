#pragma once

#include <string>
#include <vector>

#include "tessera/config/fields.h"

/// The keys of each section of a configuration, without the section's name.
namespace tessera::config::detail {

using Names = std::vector<std::string>;
using Fields = std::vector<ConfigField>;
using C = TrainConfig;

Fields model_fields();
Fields data_fields();
Fields optim_fields();
Fields train_fields();
Fields run_fields();
Fields parallel_fields();

/// at<&C::optim, &OptimSection::lr>(config) is &config.optim.lr.
template <auto... Members>
ConfigTarget at(TrainConfig& config) {
  return &(config.*....*Members);
}

inline constexpr double kMostSteps = 1e12;     // Ten times this fits an int64_t.
inline constexpr double kMostSize = 1U << 31;  // Products of two sizes fit an int64_t.
inline constexpr double kMostFactor = 1 << 16;

}  // namespace tessera::config::detail
