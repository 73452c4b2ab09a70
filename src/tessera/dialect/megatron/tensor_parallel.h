#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/plan/megatron/tensor_parallel.h"

/// The helpers of Megatron-Core's `tensor_parallel`, under its names: those on tensors here, the
/// arithmetic (divide, VocabUtility, …) in tessera/plan/megatron/tensor_parallel.h.
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

}  // namespace megatron
}  // namespace tessera
