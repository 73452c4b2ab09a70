#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

struct OptimizerState;

/// What an optimizer changes: parameters of 32 and 64 bits themselves, float32 copies of those of
/// 16 bits, in which small updates would be rounded away.
class MasterWeights {
 public:
  /// Takes the parameters that ask for a gradient. ConfigError for names or tensors that come
  /// twice, tensors that are not contiguous or no floating-point numbers, and where none is left;
  /// StateError for parameters without values.
  explicit MasterWeights(const Parameters& parameters);

  /// One tensor a weight.
  const std::vector<at::Tensor>& tensors() const { return weights_; }
  const std::string& name(size_t index) const { return parameters_[index].name; }

  /// What one step works on.
  struct Pending {
    std::vector<size_t> indices;  // Of the weights that have a gradient.
    std::vector<at::Tensor> weights;
    std::vector<at::Tensor> gradients;  // Of the weight's dtype.

    /// Those of a list with one tensor a weight.
    std::vector<at::Tensor> of(const std::vector<at::Tensor>& all) const;
  };
  Pending pending() const;

  /// Rounds the changed weights into their parameters.
  void publish(const Pending& changed) const;

  void zero_grad() const;

  /// Appends the copy of one parameter where there is one.
  void append_state(size_t index, std::vector<OptimizerState>& to) const;

 private:
  bool is_copy(size_t index) const;

  Parameters parameters_;
  std::vector<at::Tensor> weights_;
};

}  // namespace tessera
