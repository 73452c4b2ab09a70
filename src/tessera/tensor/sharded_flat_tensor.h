#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/tensor/sharding_spec.h"

namespace tessera TSR_API {

struct FlatShardOptions {
  std::optional<ShardingSpec> sharding_spec = std::nullopt;  // ShardingSpec::even unless given.
  /// All ranks get the values of group rank 0. Otherwise each keeps its own, and nothing is sent.
  bool synchronize = true;
  std::optional<c10::Device> device = std::nullopt;  // The tensor's; of a meta tensor the CPU.
  std::optional<bool> requires_grad = std::nullopt;  // As the tensor's.
};

/// A tensor of which each rank of a group holds some runs, flattened, by a ShardingSpec.
///
///   ShardedFlatTensor weight = ShardedFlatTensor::shard(w, group);
///   optimizer.add_param_group({{weight.sharded_data()}});
///   weight.unshard_();                            // the whole, on every rank
///   y = x.matmul(weight.tensor());                // compute on the active tensor
///   weight.reshard_();                            // its memory is free again
///
/// Operators act on `tensor()`, the **active** tensor: the shard, or while unsharded the whole. The
/// shard is one tensor for all time, so that an optimizer may hold it; so is the whole, whose
/// memory comes and goes: reading it while sharded raises an error, and what autograd saved of it
/// is valid again after the next unshard_().
///
/// A handle, as at::Tensor is: copies are the same tensor. Not to be used by two threads at once.
class ShardedFlatTensor {
 public:
  /// A shard of one dimension that belongs to nothing yet; mark_as_sharded() says to what.
  explicit ShardedFlatTensor(const at::Tensor& data, bool requires_grad = false);
  // Moving copies, so that what was moved from is still the same tensor.
  ShardedFlatTensor(const ShardedFlatTensor&) = default;
  ShardedFlatTensor& operator=(const ShardedFlatTensor&) = default;

  /// **Collective** where it synchronizes; otherwise local. Of a meta tensor no values are taken:
  /// the shard is not initialised.
  static ShardedFlatTensor shard(const at::Tensor& tensor, const Group& group,
                                 const FlatShardOptions& options = {});

  /// **Collective.** The whole tensor; while unsharded that is the active one itself. With
  /// rank0_only group rank 0 alone gets it, the others an empty one.
  at::Tensor gather(std::optional<at::ScalarType> dtype = std::nullopt,
                    bool rank0_only = false) const;
  /// **Collective**, unless the data is given: then that is viewed as the whole, and shared. The
  /// whole becomes active; nothing happens where it is already. With rank0_only the others have an
  /// empty tensor.
  void unshard_(const std::optional<at::Tensor>& unsharded_data = std::nullopt,
                std::optional<at::ScalarType> dtype = std::nullopt, bool rank0_only = false);
  /// The shard becomes active and the whole's memory is given back, whoever else refers to it; its
  /// gradient stays. Changes of the whole are lost, or with writeback taken from group rank 0:
  /// **collective** then. Nothing happens where it is sharded.
  void reshard_(bool writeback = false);

  /// **Collective.** Says to what the shard belongs; its size must fit on every rank.
  void mark_as_sharded(const ShardingSpec& spec, const Group& group);
  /// Another tensor of the active shape, sharded as this one is; unsharded where this one is.
  ShardedFlatTensor wrap(const at::Tensor& tensor,
                         std::optional<bool> requires_grad = std::nullopt) const;
  /// A tensor of the unsharded shape as the flat chunks of all ranks, with pad each as long as the
  /// longest, filled up with zeros. Views where a chunk is one run.
  std::vector<at::Tensor> chunk_unsharded(const at::Tensor& tensor, bool pad = false) const;
  /// This rank's chunk of it.
  at::Tensor sharded_chunk(const at::Tensor& tensor) const;

  /// What operators act on: the whole while unsharded, otherwise the shard.
  const at::Tensor& tensor() const&;
  at::Tensor tensor() && { return tensor(); }
  /// The gradient of the whole, or where there is none, of the shard.
  at::Tensor grad() const;
  /// Becomes the gradient of the shard, which an optimizer of it reads; that of the whole is
  /// dropped. Undefined: there is none any more.
  void set_sharded_grad(const at::Tensor& grad);
  bool requires_grad() const;

  bool metadata_set() const;
  bool is_sharded() const;
  /// These raise StateError before mark_as_sharded().
  const ShardingSpec& sharding_spec() const&;
  ShardingSpec sharding_spec() && { return sharding_spec(); }
  const Group& process_group() const&;
  Group process_group() && { return process_group(); }
  /// This rank's.
  const FlatSpans& unsharded_flattened_offsets() const&;
  FlatSpans unsharded_flattened_offsets() && { return unsharded_flattened_offsets(); }
  int64_t unsharded_numel() const;
  const std::vector<int64_t>& unsharded_shape() const&;
  std::vector<int64_t> unsharded_shape() && { return unsharded_shape(); }

  int64_t sharded_numel() const;
  std::vector<int64_t> sharded_shape() const;
  const at::Tensor& sharded_data() const&;
  at::Tensor sharded_data() && { return sharded_data(); }
  /// Values that the shard takes over without a copy; of the same size once it belongs to a spec.
  void set_sharded_data(const at::Tensor& data);
  /// Nothing while sharded.
  std::optional<at::Tensor> unsharded_data() const;

  /// "ShardedFlatTensor(local_tensor=(3) Float, global_tensor=(2,3) Float)".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const ShardedFlatTensor& tensor);

 protected:
  struct State;
  explicit ShardedFlatTensor(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;

 private:
  at::Tensor gathered(at::ScalarType dtype) const;
  at::Tensor gathered_on_first(at::ScalarType dtype) const;
  void become_whole(const at::Tensor& contents);
  void write_back() const;
  void check_unsharded(const at::Tensor& tensor) const;
};

/// The same as a parameter: it wants a gradient unless told otherwise. Made without data it is
/// empty.
class ShardedFlatParameter : public ShardedFlatTensor {
 public:
  explicit ShardedFlatParameter(const at::Tensor& data = {}, bool requires_grad = true);
  static ShardedFlatParameter shard(const at::Tensor& tensor, const Group& group,
                                    const FlatShardOptions& options = {});

 private:
  explicit ShardedFlatParameter(const ShardedFlatTensor& tensor);
};

}  // namespace tessera
