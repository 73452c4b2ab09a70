#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/comm/work.h"
#include "tessera/topology/placement.h"
#include "tessera/topology/rank.h"

/// Every function here is **collective**: all ranks of the group call it, in the same order on each
/// lane. Each starts the operation and returns a Work; `.wait()` gives the result. Tensors of any
/// dtype and dense layout; a tensor that does not fit raises ConfigError before anything is sent.
///
/// Thread rules: a function may be called from any thread, and several at once on different groups
/// or lanes; on one of them the order of the calls must be that of all ranks. The tensors belong to
/// the operation until its Work was waited for: no other thread touches them meanwhile.
namespace tessera TSR_API {

class WorldHandle;

using Sizes = std::vector<int64_t>;

/// In place. kAvg needs a floating-point tensor; of bool tensors kSum and kMax are "any", kProduct
/// and kMin "all".
Work all_reduce(const at::Tensor& tensor, const Group& group, ReduceOp op = ReduceOp::kSum);
/// In place on `dst`; the tensors of other ranks hold nothing useful afterwards.
Work reduce(const at::Tensor& tensor, Member dst, const Group& group, ReduceOp op = ReduceOp::kSum);
/// In place.
Work broadcast(const at::Tensor& tensor, Member src, const Group& group);

/// The tensors of all ranks joined along `dim`, in group-rank order; all have one shape.
Work all_gather(const at::Tensor& tensor, const Group& group, int64_t dim = 0);
/// The tensors of all ranks as a list, in group-rank order. Shapes may differ: they are exchanged
/// first, and waited for.
ListWork all_gather_uneven(const at::Tensor& tensor, const Group& group);

/// The sum (or other reduction) of all ranks' tensors, of which each rank gets its piece of
/// dimension `dim`. Without sizes the pieces are equal; otherwise sizes[r] is the piece of group
/// rank r, the same list on every rank.
Work reduce_scatter(const at::Tensor& tensor, const Group& group, ReduceOp op = ReduceOp::kSum,
                    int64_t dim = 0, const std::optional<Sizes>& sizes = std::nullopt);

/// Rows of dimension 0 to each rank and from each rank: equal shares, or `send[r]` rows to and
/// `receive[r]` rows from group rank r.
Work all_to_all(const at::Tensor& tensor, const Group& group);
Work all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                const Group& group);

/// On `dst` the tensors of all ranks, in group-rank order; elsewhere an empty list.
ListWork gather(const at::Tensor& tensor, Member dst, const Group& group);
/// Into `tensor` the one of `src`'s tensors that is for this rank; `tensors` matters on `src`
/// alone.
Work scatter(const at::Tensor& tensor, std::span<const at::Tensor> tensors, Member src,
             const Group& group);

/// Larger ones belong to messages that are part of a collective.
constexpr int kLargestTag = std::numeric_limits<int>::max() - 1;

/// To and from one rank. Operations with equal tags, from 0 to kLargestTag, match in the order in
/// which they were started.
Work send(const at::Tensor& tensor, Member dst, const Group& group, int tag = 0);
Work recv(const at::Tensor& tensor, Member src, const Group& group, int tag = 0);

/// One end of a batch of sends and receives.
struct P2p {
  enum class Kind { kSend, kRecv };
  Kind kind;
  at::Tensor tensor;  // The memory that is sent, or received into.
  Member peer;
  int tag = 0;
};
/// All at once, so that ranks may send to each other without waiting for each other.
ListWork batch_send_recv(std::span<const P2p> operations, const Group& group);

/// Many tensors in one operation.
ListWork all_reduce_coalesced(std::span<const at::Tensor> tensors, const Group& group,
                              ReduceOp op = ReduceOp::kSum);
ListWork all_gather_coalesced(std::span<const at::Tensor> tensors, const Group& group,
                              int64_t dim = 0);
ListWork reduce_scatter_coalesced(std::span<const at::Tensor> tensors, const Group& group,
                                  ReduceOp op = ReduceOp::kSum);

/// Returns when every rank has come here.
void barrier(const Group& group);

/// Throws ConfigError on every rank where `ok` is false on any of them: for checks of what only one
/// rank can see.
void agree(bool ok, const Group& group, std::string_view what);

/// Runs `check` on every rank of the world. Where it throws on one of them, all throw: that one its
/// own error, the others ConfigError with `what`.
void check_together(const WorldHandle& world, std::string_view what,
                    const std::function<void()>& check);

}  // namespace tessera
