#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "tessera/base/export.h"
#include "tessera/base/normal_quantile.h"
#include "tessera/base/philox.h"

namespace tessera TSR_API {

/// Random values are a function of this key and the index of an element in its whole tensor, never
/// of the rank, the layout or the number of values per call. docs/randomness.md has the definition.
struct RandomKey {
  uint64_t seed = 0;   // Usually that of the whole run.
  std::string name{};  // The parameter's or dropout's name.
  uint64_t call = 0;   // Counts the uses of the name, e.g. the steps of a dropout.
};

/// The same value everywhere.
struct Constant {
  double value = 0;  // Rounded to the dtype of the tensor.
};

/// The uniform distribution.
struct Uniform {
  double low = 0;   // The smallest value.
  double high = 1;  // Values are below it.
};

/// The normal distribution.
struct Normal {
  double mean = 0;  // Finite.
  double std = 1;   // Standard deviation; 0: always the mean.
};

/// A normal distribution restricted to [low, high], which must hold at least 2^-20 of it.
struct TruncatedNormal {
  double mean = 0;  // Before the truncation.
  double std = 1;   // Before the truncation; above 0.
  double low = -2;  // A value, not a number of deviations; may be infinite.
  double high = 2;  // Also a value; may be infinite.
};

/// 1 with the given probability, otherwise 0.
struct Bernoulli {
  double probability = 0.5;  // From 0 to 1.
};

/// A distribution that a Sampler draws from.
using Distribution = std::variant<Constant, Uniform, Normal, TruncatedNormal, Bernoulli>;

/// The values of a distribution for a key. ConfigError for an invalid distribution, e.g. a negative
/// deviation or bounds in the wrong order.
///
/// Each index takes one draw: 32 random bits for a float, 52 for a double, so the two have
/// different values. Bit for bit the same on every machine. Threads may share a sampler.
class Sampler {
 public:
  Sampler(const RandomKey& key, const Distribution& distribution);

  /// Sets out[i] to the value of element first + i.
  void fill(int64_t first, std::span<float> out) const;
  void fill(int64_t first, std::span<double> out) const;

 private:
  template <class T>
  void fill_batches(int64_t first, std::span<T> out) const;

  RandomStream stream_;
  Distribution distribution_;
  NormalParts parts_;  // For normal distributions.
};

}  // namespace tessera
