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
/// lane. It starts the operation and returns a Work; `.wait()` returns the result. Tensors may have
/// any dtype, but must be dense; ConfigError for a tensor that does not fit, before anything is
/// sent.
///
/// Threads: any thread may call these functions, and several threads at once on different groups or
/// lanes. On one group and lane, the order of the calls must be the same on all ranks. Until
/// wait() has returned, no other thread may use the tensors.
namespace tessera TSR_API {

class WorldHandle;

/// Numbers of elements or rows, one per member of a group.
using Sizes = std::vector<int64_t>;

/// In place. kAvg needs a floating-point tensor. For bool tensors kSum and kMax mean "any",
/// kProduct and kMin "all".
Work all_reduce(const at::Tensor& tensor, const Group& group, ReduceOp op = ReduceOp::kSum);
/// In place on `dst`; on other ranks the content of the tensor is undefined afterwards.
Work reduce(const at::Tensor& tensor, Member dst, const Group& group, ReduceOp op = ReduceOp::kSum);
/// In place.
Work broadcast(const at::Tensor& tensor, Member src, const Group& group);

/// The tensors of all ranks, concatenated along `dim` in group-rank order. All must have the same
/// shape.
Work all_gather(const at::Tensor& tensor, const Group& group, int64_t dim = 0);
/// The tensors of all ranks as a list, in group-rank order. Shapes may differ: the ranks exchange
/// them first, and wait for that.
ListWork all_gather_uneven(const at::Tensor& tensor, const Group& group);

/// Reduces the tensors of all ranks; each rank gets its piece along `dim`. Without `sizes` the
/// pieces are equal; otherwise sizes[r] is the size of group rank r's piece, and the list must be
/// the same on every rank.
Work reduce_scatter(const at::Tensor& tensor, const Group& group, ReduceOp op = ReduceOp::kSum,
                    int64_t dim = 0, const std::optional<Sizes>& sizes = std::nullopt);

/// Exchanges rows of dimension 0 between all ranks: equal shares, or `send[r]` rows to and
/// `receive[r]` rows from group rank r.
Work all_to_all(const at::Tensor& tensor, const Group& group);
/// With a number of rows per group rank.
Work all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                const Group& group);

/// Returns the tensors of all ranks in group-rank order on `dst`, an empty list elsewhere.
ListWork gather(const at::Tensor& tensor, Member dst, const Group& group);
/// Copies this rank's entry of `src`'s `tensors` into `tensor`. `tensors` is ignored on other
/// ranks.
Work scatter(const at::Tensor& tensor, std::span<const at::Tensor> tensors, Member src,
             const Group& group);

/// Larger tags are reserved for messages inside collectives.
constexpr int kLargestTag = std::numeric_limits<int>::max() - 1;

/// Point-to-point. Operations with the same tag, from 0 to kLargestTag, match in the order in which
/// they were started.
Work send(const at::Tensor& tensor, Member dst, const Group& group, int tag = 0);
/// Receives into `tensor` what `src` sends with the same tag.
Work recv(const at::Tensor& tensor, Member src, const Group& group, int tag = 0);

/// One send or receive of a batch.
struct P2p {
  /// The direction, seen from this rank.
  enum class Kind { kSend, kRecv };
  Kind kind;          // Whether this rank sends or receives.
  at::Tensor tensor;  // What to send, or where to receive.
  Member peer;        // The other side, not this rank itself.
  int tag = 0;        // From 0 to kLargestTag, the same on both sides.
};
/// Starts all operations at once, so that ranks can send to each other without a deadlock. Over
/// NCCL the other end must use this function, too, and all ranks of the group must take part in the
/// first operation that is not a `send` or `recv`, since it connects them.
ListWork batch_send_recv(std::span<const P2p> operations, const Group& group);

/// Many tensors in one operation.
ListWork all_reduce_coalesced(std::span<const at::Tensor> tensors, const Group& group,
                              ReduceOp op = ReduceOp::kSum);
/// all_gather of several tensors as one operation.
ListWork all_gather_coalesced(std::span<const at::Tensor> tensors, const Group& group,
                              int64_t dim = 0);
/// reduce_scatter of several tensors as one operation.
ListWork reduce_scatter_coalesced(std::span<const at::Tensor> tensors, const Group& group,
                                  ReduceOp op = ReduceOp::kSum);

/// Returns when every rank has called it.
void barrier(const Group& group);

/// Throws ConfigError on every rank if `ok` is false on any rank. Use it for checks that depend on
/// local state.
void agree(bool ok, const Group& group, std::string_view what);

/// Runs `check` on every rank of the world. If it throws on one rank, all throw: that rank its own
/// error, the others ConfigError with `what`.
void check_together(const WorldHandle& world, std::string_view what,
                    const std::function<void()>& check);

}  // namespace tessera
