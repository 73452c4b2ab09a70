#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "tessera/base/export.h"
#include "tessera/base/normal_quantile.h"
#include "tessera/base/philox.h"

namespace tessera TSR_API {

/// What random values are a function of, besides the index of an element in its whole tensor: never
/// of the rank, the layout or the number of values asked for at once. docs/randomness.md defines
/// it.
struct RandomKey {
  uint64_t seed = 0;
  std::string name{};  // Of the parameter or the dropout.
  uint64_t call = 0;   // Which use of the name it is, such as the step of a dropout.
};

struct Constant {
  double value = 0;
};

/// Values from `low` to below `high`.
struct Uniform {
  double low = 0;
  double high = 1;
};

struct Normal {
  double mean = 0;
  double std = 1;
};

/// A normal distribution without what lies outside [low, high]; bounds may be infinite.
struct TruncatedNormal {
  double mean = 0;
  double std = 1;
  double low = -2;
  double high = 2;
};

/// 1 with the given probability, otherwise 0.
struct Bernoulli {
  double probability = 0.5;
};

using Distribution = std::variant<Constant, Uniform, Normal, TruncatedNormal, Bernoulli>;

/// The values of a distribution under a key. A distribution that does not exist (a negative
/// deviation, bounds in the wrong order) is refused by a ConfigError.
///
/// One index takes one draw: 32 random bits for a float, 52 for a double, so that the two have
/// values of their own. Bit for bit the same on every machine. May be shared by threads.
class Sampler {
 public:
  Sampler(const RandomKey& key, const Distribution& distribution);

  /// out[i] becomes the value of element first + i.
  void fill(int64_t first, std::span<float> out) const;
  void fill(int64_t first, std::span<double> out) const;

 private:
  template <class T>
  void fill_batches(int64_t first, std::span<T> out) const;

  RandomStream stream_;
  Distribution distribution_;
  NormalParts parts_;  // Of the normal distributions.
};

}  // namespace tessera
