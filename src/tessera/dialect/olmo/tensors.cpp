#include "tessera/dialect/olmo/tensors.h"

#include "tessera/base/error.h"

namespace tessera::olmo {
namespace {

Group required_group(const OptionalGroup& group) {
  const OptionalGroup found = group_or_world(group);
  if (!found) throw StateError("the process is not distributed; call init_distributed() first");
  return *found;
}

std::optional<GlobalRank> as_global(std::optional<int64_t> rank) {
  return rank ? std::optional(GlobalRank{*rank}) : std::nullopt;
}

}  // namespace

ShardedFlatTensor ShardedFlatTensor::shard(const at::Tensor& tensor,
                                           const std::optional<ShardingSpec>& sharding_spec,
                                           const OptionalGroup& process_group, bool synchronize,
                                           std::optional<c10::Device> device,
                                           std::optional<bool> requires_grad) {
  return ShardedFlatTensor(tessera::ShardedFlatTensor::shard(
      tensor, required_group(process_group), {sharding_spec, synchronize, device, requires_grad}));
}

void ShardedFlatTensor::mark_as_sharded(const ShardingSpec& sharding_spec,
                                        const OptionalGroup& process_group) {
  tessera::ShardedFlatTensor::mark_as_sharded(sharding_spec, required_group(process_group));
}

ShardedFlatTensor ShardedFlatTensor::wrap(const at::Tensor& tensor,
                                          std::optional<bool> requires_grad) const {
  return ShardedFlatTensor(tessera::ShardedFlatTensor::wrap(tensor, requires_grad));
}

ShardedFlatParameter ShardedFlatParameter::shard(const at::Tensor& tensor,
                                                 const std::optional<ShardingSpec>& sharding_spec,
                                                 const OptionalGroup& process_group,
                                                 bool synchronize,
                                                 std::optional<c10::Device> device,
                                                 std::optional<bool> requires_grad) {
  return ShardedFlatParameter(tessera::ShardedFlatParameter::shard(
      tensor, required_group(process_group), {sharding_spec, synchronize, device, requires_grad}));
}

Box compute_local_shape_and_global_offset(at::IntArrayRef global_shape, const DeviceMesh& mesh,
                                          const Placements& placements,
                                          std::optional<int64_t> rank) {
  return tessera::compute_local_shape_and_global_offset(global_shape, mesh, placements,
                                                        as_global(rank));
}

Box get_local_shape_and_global_offset(const DTensor& dtensor, std::optional<int64_t> rank) {
  return tessera::get_local_shape_and_global_offset(dtensor, as_global(rank));
}

}  // namespace tessera::olmo
