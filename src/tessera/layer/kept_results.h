#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The results of a unit's expensive layers, for selective recompute: the first run of the forward
/// pass computes and keeps them, and a second run, in the backward pass, gets them back.
///
///   const at::Tensor y = kept.results([&] { return std::vector{at::linear(x, weight)}; })[0];
///
/// Both runs must ask for the same results in the same order.
class KeptResults {
 public:
  /// The results of one layer.
  using Results = std::vector<at::Tensor>;

  /// Of the next layer: the first run computes and keeps them, a second run gets them back without
  /// their graph. StateError if a second run has more layers than the first.
  Results results(const std::function<Results()>& compute);

  /// Ends the first run with the unit's output: moves out all tensors, in order. A result that is
  /// the output itself has no values, since a second run only needs its gradient. StateError if the
  /// unit has changed a result in place, since a second run would change it again.
  std::vector<at::Tensor> take(const at::Tensor& output);
  /// Begins a second run with the tensors that take() returned.
  void begin_second_run(std::vector<at::Tensor> tensors);
  /// Drops the tensors; the graph of the second run keeps those that it needs.
  void end_second_run() { tensors_.clear(); }

 private:
  Results next();

  std::vector<at::Tensor> tensors_ = {};
  std::vector<int64_t> versions_ = {};  // Of the tensors when the layer returned them.
  std::vector<size_t> counts_ = {};     // Tensors per layer.
  bool is_second_run_ = false;
  size_t next_layer_ = 0;
  size_t next_tensor_ = 0;
};

/// The results of `compute`, through `kept` if it is not null.
KeptResults::Results kept_or_computed(KeptResults* kept,
                                      const std::function<KeptResults::Results()>& compute);

}  // namespace tessera
