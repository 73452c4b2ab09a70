#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/layer/pass.h"
#include "tessera/plan/megatron/tensor_parallel.h"

/// The helpers of Megatron-Core's `tensor_parallel`, under its names: those on tensors here, the
/// arithmetic (divide, VocabUtility, …) in tessera/plan/megatron/tensor_parallel.h. Activations are
/// [batch, positions, width], as everywhere in Tessera, not [positions, batch, width].
namespace tessera {
namespace megatron TSR_API {

/// Views of equal pieces of the last dimension, or contiguous copies of them. ConfigError if it is
/// empty or does not divide.
std::vector<at::Tensor> split_tensor_along_last_dim(const at::Tensor& tensor,
                                                    int64_t num_partitions,
                                                    bool contiguous_split_chunks = false);

/// This rank's piece of the flattened tensor, a view or a copy. The default group is
/// get_tensor_model_parallel_group(). ConfigError if the tensor is not contiguous, or if its
/// elements do not divide among the ranks: the last ones would belong to no rank.
at::Tensor split_tensor_into_1d_equal_chunks(const at::Tensor& tensor, bool new_buffer = false,
                                             const std::optional<Group>& tp_group = std::nullopt);

/// **Collective.** The last dimension of all ranks, concatenated, for work that every rank repeats:
/// the backward pass cuts the gradient. The default group is get_tensor_model_parallel_group().
at::Tensor gather_from_tensor_model_parallel_region(
    const at::Tensor& input, const std::optional<Group>& group = std::nullopt);
/// **Collective.** This rank's piece of the last dimension of an input that is the same on all
/// ranks: the backward pass gathers the gradient.
at::Tensor scatter_to_tensor_model_parallel_region(
    const at::Tensor& input, const std::optional<Group>& group = std::nullopt);

/// **Collective.** What ColumnParallelLinear computes: column_linear(), and with `gather_output`
/// all outputs on every rank. ConfigError for that with sequence parallelism.
at::Tensor column_parallel_linear(const at::Tensor& input, const at::Tensor& weight,
                                  const at::Tensor& bias, const Pass& pass,
                                  bool gather_output = false);
/// **Collective.** What RowParallelLinear computes: row_linear(), of an input that it cuts first
/// unless `input_is_parallel`. ConfigError if it would with sequence parallelism.
at::Tensor row_parallel_linear(const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias, const Pass& pass,
                               bool input_is_parallel = true);

}  // namespace megatron
}  // namespace tessera
