#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tessera/comm/work.h"
#include "tessera/layer/joined_linear.h"
#include "tessera/layer/pass.h"
#include "tessera/parallel/tensor/column_linear.h"

namespace tessera::tensor::detail {

/// The dimension that sequence parallelism splits.
constexpr int64_t kPositions = 1;

/// The pass's tensor parallelism; null if it splits nothing.
const TensorParallel* active(const Pass& pass);

/// ConfigError unless x is the input of a linear layer: [batch, positions, width].
void check_input(const at::Tensor& x);

/// This rank's number of positions. ConfigError unless every rank gets equally many.
int64_t positions_per_rank(const at::Tensor& x, const TensorParallel& tensor);

/// Sequence parallelism: x with the positions of all ranks.
Work start_gather(const at::Tensor& x, const TensorParallel& tensor);
/// The sum over the ranks: with sequence parallelism of this rank's positions, otherwise in place.
Work start_sum(const at::Tensor& partial, const TensorParallel& tensor);

/// What the backward pass of linear layers needs, in addition to saved tensors. Autograd can only
/// save its own types.
struct LayerCall : torch::CustomClassHolder {
  LayerCall(const Pass& pass, std::span<const LinearWeights> layers);
  static const LayerCall& of(torch::autograd::AutogradContext& context);

  TensorParallel tensor;
  Fp8 fp8;
  bool adds_gradients;  // Pass::adds_gradients.
  std::optional<WeightGradients> deferred;
  std::vector<LinearWeights> layers;  // The parameters themselves.
};
using LayerCallPtr = c10::intrusive_ptr<LayerCall>;

/// Puts the gradients of the parameters that are not there yet into `made`, whose entry 0 is for
/// the input, or queues them if they are deferred. There are operands for each layer, or one for
/// all.
void make_gradients(const torch::autograd::AutogradContext& context, const LayerCall& call,
                    std::span<const GradientOperands> operands, std::vector<at::Tensor>& made);

}  // namespace tessera::tensor::detail
