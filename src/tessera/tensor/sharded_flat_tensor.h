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

/// How a tensor is sharded.
struct FlatShardOptions {
  std::optional<ShardingSpec> sharding_spec = std::nullopt;  // Default: ShardingSpec::even.
  /// All ranks get the values of group rank 0. Otherwise each keeps its own, and nothing is sent.
  bool synchronize = true;
  std::optional<c10::Device> device = std::nullopt;  // Default: the tensor's; CPU if it is meta.
  std::optional<bool> requires_grad = std::nullopt;  // Default: as the tensor.
};

/// A flattened tensor of which each rank of a group holds some runs, by a ShardingSpec.
///
///   ShardedFlatTensor weight = ShardedFlatTensor::shard(w, group);
///   optimizer.add_param_group({{weight.sharded_data()}});
///   weight.unshard_();                            // the full tensor, on every rank
///   y = x.matmul(weight.tensor());                // compute on the active tensor
///   weight.reshard_();                            // frees its memory
///
/// Operators use `tensor()`, the **active** tensor: the shard, or while unsharded the full tensor.
/// The shard is always the same tensor object, so that an optimizer can hold it. So is the full
/// tensor, whose memory comes and goes: reading it while sharded is an error, and what autograd has
/// saved of it is valid again after the next unshard_().
///
/// A handle like at::Tensor: copies are the same tensor. One thread at a time.
class ShardedFlatTensor {
 public:
  /// A shard of one dimension without a sharding spec; mark_as_sharded() sets it.
  explicit ShardedFlatTensor(const at::Tensor& data, bool requires_grad = false);
  // Moving copies, so that a moved-from object is still the same tensor.
  ShardedFlatTensor(const ShardedFlatTensor&) = default;
  ShardedFlatTensor& operator=(const ShardedFlatTensor&) = default;

  /// **Collective** if it synchronizes; otherwise local. The shard of a meta tensor is not
  /// initialized.
  static ShardedFlatTensor shard(const at::Tensor& tensor, const Group& group,
                                 const FlatShardOptions& options = {});

  /// **Collective.** The full tensor; while unsharded, the active tensor itself. With rank0_only,
  /// only group rank 0 gets it, the others an empty one.
  at::Tensor gather(std::optional<at::ScalarType> dtype = std::nullopt,
                    bool rank0_only = false) const;
  /// Makes the full tensor active, if it is not already. **Collective**, unless `unsharded_data` is
  /// given: then it becomes the full tensor and shares its memory. With rank0_only the other ranks
  /// have an empty tensor.
  void unshard_(const std::optional<at::Tensor>& unsharded_data = std::nullopt,
                std::optional<at::ScalarType> dtype = std::nullopt, bool rank0_only = false);
  /// Makes the shard active, if it is not already, and frees the memory of the full tensor, even if
  /// others refer to it; its gradient stays. Changes of the full tensor are lost. With writeback
  /// the shards get those of group rank 0, which is **collective**.
  void reshard_(bool writeback = false);

  /// **Collective.** Sets the sharding spec; the shard's size must fit on every rank.
  void mark_as_sharded(const ShardingSpec& spec, const Group& group);
  /// Wraps another tensor of the active shape with the same sharding; unsharded if this one is.
  ShardedFlatTensor wrap(const at::Tensor& tensor,
                         std::optional<bool> requires_grad = std::nullopt) const;
  /// The flat chunks of all ranks of a tensor of the unsharded shape; with `pad`, padded with zeros
  /// to the longest. A chunk is a view if it is one run.
  std::vector<at::Tensor> chunk_unsharded(const at::Tensor& tensor, bool pad = false) const;
  /// This rank's chunk of such a tensor.
  at::Tensor sharded_chunk(const at::Tensor& tensor) const;

  /// The active tensor: the full tensor while unsharded, otherwise the shard.
  const at::Tensor& tensor() const&;
  at::Tensor tensor() && { return tensor(); }
  /// The gradient of the full tensor, or of the shard if there is none.
  at::Tensor grad() const;
  /// Sets the gradient of the shard, for its optimizer, and drops that of the full tensor. An
  /// undefined tensor removes the gradient.
  void set_sharded_grad(const at::Tensor& grad);
  /// Of the shard, and of the full tensor.
  bool requires_grad() const;

  /// Whether it has a sharding spec and a group.
  bool metadata_set() const;
  /// Whether the shard is the active tensor.
  bool is_sharded() const;
  /// StateError before mark_as_sharded().
  const ShardingSpec& sharding_spec() const&;
  ShardingSpec sharding_spec() && { return sharding_spec(); }
  /// The ranks that hold the shards. StateError before mark_as_sharded().
  const Group& process_group() const&;
  Group process_group() && { return process_group(); }
  /// The runs that this rank holds. StateError before mark_as_sharded().
  const FlatSpans& unsharded_flattened_offsets() const&;
  FlatSpans unsharded_flattened_offsets() && { return unsharded_flattened_offsets(); }
  /// Elements of the full tensor. StateError before mark_as_sharded().
  int64_t unsharded_numel() const;
  /// Shape of the full tensor. StateError before mark_as_sharded().
  const std::vector<int64_t>& unsharded_shape() const&;
  std::vector<int64_t> unsharded_shape() && { return unsharded_shape(); }

  /// Elements of this rank's shard.
  int64_t sharded_numel() const;
  /// Shape of this rank's shard: one dimension.
  std::vector<int64_t> sharded_shape() const;
  /// This rank's shard: always the same tensor object, for its optimizer.
  const at::Tensor& sharded_data() const&;
  at::Tensor sharded_data() && { return sharded_data(); }
  /// Replaces the data of the shard without a copy. With a spec, the size must be the same.
  void set_sharded_data(const at::Tensor& data);
  /// Empty while sharded.
  std::optional<at::Tensor> unsharded_data() const;

  /// "ShardedFlatTensor(local_tensor=(3) Float, global_tensor=(2,3) Float)".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const ShardedFlatTensor& tensor);

 protected:
  struct State;
  explicit ShardedFlatTensor(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // Shared by all copies.

 private:
  at::Tensor gathered(at::ScalarType dtype) const;
  at::Tensor gathered_on_first(at::ScalarType dtype) const;
  void become_whole(const at::Tensor& contents);
  void write_back() const;
  void check_unsharded(const at::Tensor& tensor) const;
};

/// The same as a parameter: it requires a gradient by default. Without data it is empty.
class ShardedFlatParameter : public ShardedFlatTensor {
 public:
  explicit ShardedFlatParameter(const at::Tensor& data = {}, bool requires_grad = true);
  /// As ShardedFlatTensor::shard(); options.requires_grad defaults to the tensor's.
  static ShardedFlatParameter shard(const at::Tensor& tensor, const Group& group,
                                    const FlatShardOptions& options = {});

 private:
  explicit ShardedFlatParameter(const ShardedFlatTensor& tensor);
};

}  // namespace tessera
