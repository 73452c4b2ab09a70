#include "tessera/parallel/fsdp/internal/flat_shard.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "tessera/comm/buffers.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/tensor/storage.h"
#include "tessera/tensor/unallocated.h"

namespace tessera::fsdp::detail {
namespace {

int64_t total_of(const std::vector<at::Tensor>& tensors) {
  int64_t total = 0;
  for (const at::Tensor& tensor : tensors) total += tensor.numel();
  return total;
}

// The values of the run that this rank keeps, if the whole has any.
at::Tensor local_values(const at::Tensor& full, const Part& part, at::Device device) {
  if (is_unallocated(full)) return unallocated({part.numel()}, full.options().device(device));
  const Span own = part.elements();
  return full.detach()
      .reshape(-1)
      .slice(0, own.begin, own.end)
      .to(device, full.scalar_type(),
          /*non_blocking=*/false,
          /*copy=*/true);
}

// Groups of some dialects are on the lane of reductions.
Group beside_reductions(const Group& group) {
  return group.lane() == Lane::kReduce ? on_lane(group, Lane::kGather) : group;
}

/// The storages of all flat buffers of the process.
class FlatStorages {
 public:
  static FlatStorages& all() {
    static auto* const storages = new FlatStorages;
    return *storages;
  }
  bool has(const at::Tensor& tensor) {
    const std::lock_guard lock(mutex_);
    return known_.contains(tensor.storage().unsafeGetStorageImpl());
  }
  /// Until the result is dropped.
  std::shared_ptr<const void> add(const at::Tensor& tensor) {
    const void* const storage = tensor.storage().unsafeGetStorageImpl();
    const std::lock_guard lock(mutex_);
    known_.insert(storage);
    return {storage, [this](const void* gone) {
              const std::lock_guard again(mutex_);
              known_.erase(gone);
            }};
  }

 private:
  std::mutex mutex_;
  std::set<const void*> known_;
};

}  // namespace

bool FlatShard::has(const at::Tensor& full) {
  return full.has_storage() && FlatStorages::all().has(full);
}

FlatShard::FlatShard(std::vector<at::Tensor> full, std::vector<Parameter*> local,
                     const FsdpGroups& groups, const FsdpOptions& options)
    : of_experts_(local.front()->expert.has_value()),
      gatherers_(beside_reductions(groups.shard)),
      smaller_(options.reshard == Reshard::kToSmaller ? neighbours(gatherers_, options.smaller)
                                                      : gatherers_),
      reducers_(on_lane(groups.shard, Lane::kReduce)),
      replicas_(on_lane(groups.replicate, Lane::kReduce)),
      options_(options),
      dtype_(options.compute_dtype.value_or(full.front().scalar_type())) {
  const at::NoGradGuard no_grad;
  const int64_t ranks = groups.shard.size();
  const at::Device device = options.offload ? at::Device(at::kCPU) : full.front().device();
  piece_ = chunk(total_of(full), ranks, 0).size();
  const int64_t own_begin = piece_ * groups.shard.rank().value;
  flat_ = freed_tensor({piece_ * ranks}, full.front().options().dtype(dtype_));
  registration_ = FlatStorages::all().add(flat_);
  int64_t begin = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    Parameter& parameter = *local[i];
    parameter.tensor =
        local_values(full[i], parameter.place.part, device).requires_grad_(full[i].requires_grad());
    members_.push_back({.full = full[i],
                        .is_trained = full[i].requires_grad(),
                        .begin = begin,
                        .local = parameter.tensor,
                        .local_begin = std::clamp(begin - own_begin, int64_t{0}, piece_)});
    full[i].set_data(view_into(flat_, begin, full[i].sizes()));
    begin += full[i].numel();
  }
  seen_.assign(trained().size(), false);
}

void FlatShard::pack() {
  const at::NoGradGuard no_grad;
  at::TensorOptions options = members_.front().local.options().requires_grad(false);
  if (options_.offload && flat_.is_cuda()) options = options.pinned_memory(true);
  shard_ = empty_buffer({piece_}, options, gatherers_).zero_();
  for (const Member& member : members_) {
    if (member.local.numel() == 0) continue;
    const at::Tensor view = shard_.narrow(0, member.local_begin, member.local.numel());
    view.copy_(member.local);
    member.local.set_data(view);
  }
}

// A single parameter may share its memory with another one, to which it is tied.
at::Tensor FlatShard::source() const {
  const auto gathered_form = [&](const at::Tensor& values) {
    return values.to(flat_.device(), dtype_, /*non_blocking=*/true);
  };
  if (members_.size() > 1) return gathered_form(shard_);
  const at::Tensor& own = members_.front().local;
  const at::Tensor local = gathered_form(own.numel() == 0 ? shard_.narrow(0, 0, 0) : own.detach());
  return local.numel() == piece_ ? local : at::constant_pad_nd(local, {0, piece_ - local.numel()});
}

void FlatShard::start_gather() {
  if (gather_ || is_gathered_) return;
  const at::NoGradGuard no_grad;
  held_ = log_.begin(UnitAction::kHeld);
  if (kept_.defined()) {
    gather_.emplace(all_gather(kept_, smaller_), log_, UnitAction::kGather);
  } else {
    gather_.emplace(all_gather(source(), gatherers_), log_, UnitAction::kGather);
  }
}

void FlatShard::finish_gather() {
  if (is_gathered_) return;
  start_gather();
  const at::NoGradGuard no_grad;
  at::Tensor values = std::move(*gather_).wait();
  gather_.reset();
  kept_.reset();
  // Alone, a rank gets what it gave.
  refill_storage(flat_, values.is_alias_of(shard_) ? values.clone() : values);
  is_gathered_ = true;
}

void FlatShard::free() {
  if (!is_gathered_) return;
  free_storage(flat_);
  is_gathered_ = false;
  held_.end();
}

void FlatShard::free_to_smaller() {
  if (!is_gathered_) return;
  const at::NoGradGuard no_grad;
  kept_ = flat_.chunk(smaller_.size())[static_cast<size_t>(smaller_.rank().value)].clone();
  free();
}

void FlatShard::expire() {
  // Started ahead of time, but nothing has read it; the values are old by now.
  if (gather_) {
    (void)std::move(*std::exchange(gather_, std::nullopt)).wait();
    held_.end();
  }
  is_gathered_ = false;
  kept_.reset();
}

uint64_t FlatShard::version() const {
  uint64_t version = 0;
  for (const Member& member : members_) version += static_cast<uint64_t>(member.local._version());
  return version;
}

std::vector<at::Tensor> FlatShard::trained() const {
  std::vector<at::Tensor> tensors;
  for (const Member& member : members_) {
    if (member.is_trained) tensors.push_back(member.full);
  }
  return tensors;
}

bool FlatShard::has_gradients() const {
  return std::ranges::any_of(members_,
                             [](const Member& member) { return member.full.grad().defined(); });
}

// Zeros where there is no gradient.
at::Tensor FlatShard::flat_gradients(double share) {
  const at::TensorOptions options = flat_.options().dtype(reduce_dtype());
  const at::Tensor flat = empty_buffer({flat_.numel()}, options, reducers_);
  const at::Tensor factor = at::scalar_tensor(share, options);
  int64_t end = 0;
  size_t index = 0;  // In trained().
  for (const Member& member : members_) {
    const at::Tensor gradient = member.full.grad();
    if (member.is_trained && gradient.defined()) seen_[index] = true;
    index += member.is_trained ? 1 : 0;
    at::Tensor view = flat.narrow(0, member.begin, member.full.numel()).view(member.full.sizes());
    end = member.begin + member.full.numel();
    if (gradient.defined()) {
      at::mul_out(view, gradient.to(flat.scalar_type()), factor);
      member.full.mutable_grad().reset();
    } else {
      view.zero_();
    }
  }
  flat.narrow(0, end, flat.numel() - end).zero_();
  return flat;
}

void FlatShard::collect_gradients() {
  if (reduce_dtype() == dtype_ || !has_gradients()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor gradients = flat_gradients(1);
  if (collected_.defined()) {
    collected_.add_(gradients);
  } else {
    collected_ = gradients;
  }
}

void FlatShard::start_reduce(double share) {
  const at::NoGradGuard no_grad;
  if (trained().empty()) return;
  finish_reduce();  // Of an earlier pass.
  const at::Tensor gradients = flat_gradients(share);
  if (collected_.defined()) gradients.add_(std::exchange(collected_, {}), share);
  reduce_.emplace(reduce_scatter(gradients, reducers_), log_, UnitAction::kReduce);
  is_advanced_ = false;
}

void FlatShard::advance_reduce() {
  if (!reduce_ || is_advanced_) return;
  const at::NoGradGuard no_grad;
  const at::Tensor piece = std::move(*reduce_).wait();
  reduce_.reset();
  reduce_.emplace(all_reduce(piece, replicas_), replicas_.size() > 1 ? log_ : UnitLog(),
                  UnitAction::kReduce);
  is_advanced_ = true;
}

void FlatShard::finish_reduce() {
  if (!reduce_) return;
  advance_reduce();
  const at::NoGradGuard no_grad;
  const at::Tensor piece = std::move(*reduce_).wait();
  reduce_.reset();
  if (sums_.defined()) {
    sums_.add_(piece);
  } else {
    sums_ = piece;
  }
}

void FlatShard::publish(const std::vector<bool>& seen) {
  if (!sums_.defined()) return;
  const at::NoGradGuard no_grad;
  size_t index = 0;
  for (const Member& member : members_) {
    const at::Tensor& local = member.local;
    if (!member.is_trained || !seen[index++] || local.numel() == 0) continue;
    const at::Tensor sum =
        sums_.narrow(0, member.local_begin, local.numel()).to(local.device(), local.scalar_type());
    if (local.grad().defined()) {
      local.mutable_grad().add_(sum);
    } else {
      local.mutable_grad() = sum;
    }
  }
  sums_.reset();
  seen_.assign(seen_.size(), false);
}

void FlatShard::drop_gradients() {
  finish_reduce();
  sums_.reset();
  collected_.reset();
  seen_.assign(seen_.size(), false);
  for (const Member& member : members_) member.full.mutable_grad().reset();
}

}  // namespace tessera::fsdp::detail
