#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

struct OptimizerState;

/// The weights that an optimizer updates: 32- and 64-bit parameters themselves, and float32 master
/// copies of 16-bit parameters, in which small updates would be rounded away.
class MasterWeights {
 public:
  /// Takes the parameters that require a gradient. ConfigError for duplicate names or tensors, for
  /// tensors that are not contiguous or not floating-point, and if none is left; StateError for
  /// parameters without values.
  explicit MasterWeights(const Parameters& parameters);

  /// One tensor per weight.
  const std::vector<at::Tensor>& tensors() const { return weights_; }
  /// Of the parameter of a weight; `index` is that in tensors().
  const std::string& name(size_t index) const { return parameters_[index].name; }

  /// The weights of one step.
  struct Pending {
    std::vector<size_t> indices;        // Indices of the weights that have a gradient.
    std::vector<at::Tensor> weights;    // Those of `indices`.
    std::vector<at::Tensor> gradients;  // In the weight's dtype, times the factor.

    /// The entries for these weights of a list with one tensor per weight.
    std::vector<at::Tensor> of(const std::vector<at::Tensor>& all) const;
  };
  /// With gradients times a factor: of 16-bit parameters in copies, of others in place. None if the
  /// factor is non-finite.
  Pending pending(double gradient_factor) const;

  /// A weight that a kernel of a GPU can update; all tensors are contiguous.
  struct ForKernel {
    size_t index;          // In tensors().
    at::Tensor parameter;  // In 16 bits, or the weight itself.
    at::Tensor gradient;   // In the dtype of the parameter; without a factor.
    at::Tensor weight;     // In float32.
  };
  /// Those that have a gradient. Empty unless there are kernels, and all parameters and gradients
  /// have one dtype.
  std::vector<ForKernel> for_kernel() const;
  /// A factor as a float32 scalar on the device of the weights. A number of the host gets there
  /// without waiting for the device.
  at::Tensor on_device(const at::Tensor& gradient_factor) const;
  /// Tells autograd that a kernel has changed the parameters.
  static void publish(const std::vector<ForKernel>& changed);

  /// Rounds the changed weights into their parameters, and tells autograd that they have changed.
  void publish(const Pending& changed) const;

  /// Drops the gradients of the parameters.
  void zero_grad() const;

  /// Appends the master copy of a parameter, if there is one.
  void append_state(size_t index, std::vector<OptimizerState>& to) const;

 private:
  bool is_copy(size_t index) const;

  Parameters parameters_;
  std::vector<at::Tensor> weights_;
};

}  // namespace tessera
