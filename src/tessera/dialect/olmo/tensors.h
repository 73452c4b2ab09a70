#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/dialect/olmo/utils.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/sharded_flat_tensor.h"

/// OLMo-core's `distributed.tensors`: the tensors of tensor/ with its signatures, in which the
/// default group is the whole world. docs/dialects/olmo.md lists the differences.
namespace tessera {
namespace olmo TSR_API {

using tessera::ShardingSpec;

/// OLMo-core's ShardedFlatTensor.
class ShardedFlatTensor : public tessera::ShardedFlatTensor {
 public:
  explicit ShardedFlatTensor(const at::Tensor& data, bool requires_grad = false)
      : tessera::ShardedFlatTensor(data, requires_grad) {}

  /// As in tessera::ShardedFlatTensor. StateError if the process is not distributed.
  static ShardedFlatTensor shard(const at::Tensor& tensor,
                                 const std::optional<ShardingSpec>& sharding_spec = std::nullopt,
                                 const OptionalGroup& process_group = std::nullopt,
                                 bool synchronize = true,
                                 std::optional<c10::Device> device = std::nullopt,
                                 std::optional<bool> requires_grad = std::nullopt);
  /// As in tessera::ShardedFlatTensor. StateError if the process is not distributed.
  void mark_as_sharded(const ShardingSpec& sharding_spec,
                       const OptionalGroup& process_group = std::nullopt);
  /// As in tessera::ShardedFlatTensor.
  ShardedFlatTensor wrap(const at::Tensor& tensor,
                         std::optional<bool> requires_grad = std::nullopt) const;

 protected:
  explicit ShardedFlatTensor(const tessera::ShardedFlatTensor& tensor)
      : tessera::ShardedFlatTensor(tensor) {}
};

/// OLMo-core's ShardedFlatParameter: one that may require a gradient.
class ShardedFlatParameter : public ShardedFlatTensor {
 public:
  explicit ShardedFlatParameter(const at::Tensor& data = {}, bool requires_grad = true)
      : ShardedFlatTensor(tessera::ShardedFlatParameter(data, requires_grad)) {}

  /// As in tessera::ShardedFlatParameter. StateError if the process is not distributed.
  static ShardedFlatParameter shard(const at::Tensor& tensor,
                                    const std::optional<ShardingSpec>& sharding_spec = std::nullopt,
                                    const OptionalGroup& process_group = std::nullopt,
                                    bool synchronize = true,
                                    std::optional<c10::Device> device = std::nullopt,
                                    std::optional<bool> requires_grad = std::nullopt);

 private:
  explicit ShardedFlatParameter(const tessera::ShardedFlatParameter& parameter)
      : ShardedFlatTensor(parameter) {}
};

// Overloads that take a GlobalRank.
using tessera::compute_local_shape_and_global_offset;
using tessera::get_local_shape_and_global_offset;
/// The local shape and the global offset of a rank's shard; nullopt: this process's rank. Both are
/// empty for a rank outside the mesh.
Box compute_local_shape_and_global_offset(at::IntArrayRef global_shape, const DeviceMesh& mesh,
                                          const Placements& placements,
                                          std::optional<int64_t> rank);
/// The same for a tensor.
Box get_local_shape_and_global_offset(const DTensor& dtensor, std::optional<int64_t> rank);

}  // namespace olmo
}  // namespace tessera
