#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// Sums gradients over the ranks of a tensor-parallel group that hold the same parameter but have
/// seen a part of the work: of positions, for norms under sequence parallelism; of heads, for
/// key-value heads that several ranks share. All other gradients are complete.
class TensorGradients {
 public:
  /// Local. `parameters` are placed.
  TensorGradients(const Parameters& parameters, const TensorParallel& tensor);

  /// **Collective**, after the data-parallel reduction. One all-reduce per number of copies.
  void add() const;

 private:
  struct Sum {
    Group group;
    std::vector<at::Tensor> tensors = {};
  };
  std::vector<Sum> sums_ = {};
};

}  // namespace tessera
