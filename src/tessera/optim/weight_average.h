#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/base/export.h"
#include "tessera/optim/optimizer.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// The exponential moving average (EMA) of weights: after each step,
/// average = decay · average + (1 − decay) · weight. It begins with the weights themselves.
///
///   WeightAverage average(engine.parameters(), optimizer, 0.999);
///   … optimizer.step(rate); average.update(); …
///   const WeightAverage::InUse averaged = average.use();  // The model has the averages until
///   then.
///
/// Each rank averages its own parts of the parameters, in float32 (float64 for float64), from the
/// float32 master copies of 16-bit parameters.
class WeightAverage {
 public:
  /// ConfigError unless 0 ≤ decay < 1. `optimizer` is that of the parameters.
  WeightAverage(const Parameters& parameters, const Optimizer& optimizer, double decay);

  /// After each step that has changed the weights.
  void update();
  /// Begins again with the weights as they are now.
  void reset();
  /// The averages as parameters: names and places are those of the parameters.
  Parameters averages() const;

  /// The parameters have the values of the averages while it exists; training must not continue
  /// before.
  class InUse {
   public:
    explicit InUse(const WeightAverage& average);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    const WeightAverage& average_;
    std::vector<at::Tensor> weights_;
  };
  /// Copies the averages into the parameters, until the result is destroyed.
  InUse use() const { return InUse(*this); }

 private:
  Parameters parameters_;
  std::vector<at::Tensor> weights_;   // The parameters, or their master copies.
  std::vector<at::Tensor> averages_;  // One per parameter.
  double decay_;
};

}  // namespace tessera
