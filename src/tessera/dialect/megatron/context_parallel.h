#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

namespace tessera {
namespace megatron TSR_API {

/// This rank's positions of each tensor of a batch, in the head-tail layout, along dimension 2 of
/// "attention_mask" and dimension 1 of all others; undefined tensors stay undefined. Local. The
/// default group is get_context_parallel_group(). ConfigError unless the length is a multiple of
/// 2·cp.
std::map<std::string, at::Tensor> get_batch_on_this_cp_rank(
    std::map<std::string, at::Tensor> batch, const std::optional<Group>& cp_group = std::nullopt);

}  // namespace megatron
}  // namespace tessera
