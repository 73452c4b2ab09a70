#include "tessera/parallel/fsdp/internal/flat_shard.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

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
at::Tensor local_values(const at::Tensor& full, const Part& part) {
  if (is_unallocated(full)) return unallocated({part.numel()}, full.options());
  const Span own = part.elements();
  return full.detach().reshape(-1).slice(0, own.begin, own.end).clone();
}

}  // namespace

FlatShard::FlatShard(std::vector<at::Tensor> full, std::vector<Parameter*> local,
                     const FsdpGroups& groups, const FsdpOptions& options)
    : gatherers_(groups.shard),
      reducers_(on_lane(groups.shard, Lane::kReduce)),
      replicas_(on_lane(groups.replicate, Lane::kReduce)),
      options_(options),
      dtype_(options.compute_dtype.value_or(full.front().scalar_type())) {
  const at::NoGradGuard no_grad;
  const int64_t ranks = groups.shard.size();
  piece_ = chunk(total_of(full), ranks, 0).size();
  const int64_t own_begin = piece_ * groups.shard.rank().value;
  flat_ = freed_tensor({piece_ * ranks}, full.front().options().dtype(dtype_));
  int64_t begin = 0;
  for (size_t i = 0; i < full.size(); ++i) {
    Parameter& parameter = *local[i];
    parameter.tensor =
        local_values(full[i], parameter.place.part).requires_grad_(full[i].requires_grad());
    members_.push_back({.full = full[i],
                        .begin = begin,
                        .local = parameter.tensor,
                        .local_begin = std::clamp(begin - own_begin, int64_t{0}, piece_)});
    full[i].set_data(view_into(flat_, begin, full[i].sizes()));
    begin += full[i].numel();
  }
}

void FlatShard::pack() {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = members_.front().local.options().requires_grad(false);
  shard_ = at::zeros({piece_}, options);
  for (const Member& member : members_) {
    if (member.local.numel() == 0) continue;
    const at::Tensor view = shard_.narrow(0, member.local_begin, member.local.numel());
    view.copy_(member.local);
    member.local.set_data(view);
  }
}

// A single parameter may share its memory with another one, to which it is tied.
at::Tensor FlatShard::source() const {
  if (members_.size() > 1) return shard_.to(dtype_);
  const at::Tensor& own = members_.front().local;
  const at::Tensor local = own.numel() == 0 ? shard_.narrow(0, 0, 0) : own.detach().to(dtype_);
  return local.numel() == piece_ ? local : at::constant_pad_nd(local, {0, piece_ - local.numel()});
}

void FlatShard::start_gather() {
  if (gather_ || is_gathered_) return;
  const at::NoGradGuard no_grad;
  gather_.emplace(all_gather(source(), gatherers_));
}

void FlatShard::finish_gather() {
  if (is_gathered_) return;
  start_gather();
  const at::NoGradGuard no_grad;
  at::Tensor values = std::move(*gather_).wait();
  gather_.reset();
  // Alone, a rank gets what it gave.
  refill_storage(flat_, values.is_alias_of(shard_) ? values.clone() : values);
  is_gathered_ = true;
}

void FlatShard::free() {
  if (!is_gathered_) return;
  free_storage(flat_);
  is_gathered_ = false;
}

void FlatShard::expire() {
  is_gathered_ = false;
}

std::vector<at::Tensor> FlatShard::trained() const {
  std::vector<at::Tensor> tensors;
  for (const Member& member : members_) {
    if (member.full.requires_grad()) tensors.push_back(member.full);
  }
  return tensors;
}

at::Tensor FlatShard::flat_gradients() const {
  const at::TensorOptions options = flat_.options().dtype(options_.reduce_dtype.value_or(dtype_));
  const at::Tensor flat = at::zeros({flat_.numel()}, options);
  for (const Member& member : members_) {
    const at::Tensor gradient = member.full.grad();
    if (!gradient.defined()) continue;
    at::Tensor view = flat.narrow(0, member.begin, gradient.numel()).view(gradient.sizes());
    at::mul_out(view, gradient.to(flat.scalar_type()), at::scalar_tensor(options_.share, options));
    member.full.mutable_grad().reset();
  }
  return flat;
}

void FlatShard::start_reduce() {
  const at::NoGradGuard no_grad;
  if (trained().empty()) return;
  reduce_.emplace(reduce_scatter(flat_gradients(), reducers_));
  is_advanced_ = false;
}

void FlatShard::advance_reduce() {
  if (!reduce_ || is_advanced_) return;
  const at::NoGradGuard no_grad;
  const at::Tensor piece = std::move(*reduce_).wait();
  reduce_.reset();
  reduce_.emplace(all_reduce(piece, replicas_));
  is_advanced_ = true;
}

void FlatShard::finish_reduce() {
  if (!reduce_) return;
  advance_reduce();
  const at::NoGradGuard no_grad;
  const at::Tensor piece = std::move(*reduce_).wait();
  reduce_.reset();
  for (const Member& member : members_) {
    const at::Tensor& local = member.local;
    if (!local.requires_grad() || local.numel() == 0) continue;
    const at::Tensor sum =
        piece.narrow(0, member.local_begin, local.numel()).to(local.scalar_type());
    if (local.grad().defined()) {
      local.mutable_grad().add_(sum);
    } else {
      local.mutable_grad() = sum;
    }
  }
}

}  // namespace tessera::fsdp::detail
