#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/group.h"
#include "tessera/topology/rank.h"

/// Collectives through which gradients flow. **Collective** forwards and backwards: every rank of
/// the group must run the backward pass through them, too. Each is the transpose of its partner:
/// all_gather and reduce_scatter, all_reduce and identity, all_to_all and itself, scatter and
/// gather.
namespace tessera {
namespace differentiable TSR_API {

/// Joined along `dim`; the gradient is summed over the ranks and cut: reduce_scatter.
at::Tensor all_gather(const at::Tensor& tensor, const Group& group, int64_t dim = 0);
/// Summed and cut along `dim` into equal pieces; the gradient is joined: all_gather.
at::Tensor reduce_scatter(const at::Tensor& tensor, const Group& group, int64_t dim = 0);
/// Summed; the gradient passes as it is. Right where every rank goes on with the same computation
/// on the sum.
at::Tensor all_reduce(const at::Tensor& tensor, const Group& group);
/// The tensor itself; the gradient is summed over the ranks.
at::Tensor identity(const at::Tensor& tensor, const Group& group);
/// Rows exchanged; the gradient's rows go back.
at::Tensor all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                      const Group& group);
/// Of src's tensor (group size, …) this rank's entry; the gradients are gathered on src. Other
/// ranks give a tensor of the same shape, whose values do not matter and whose gradient is zero.
at::Tensor scatter(const at::Tensor& pieces, Member src, const Group& group);
/// On dst the tensors of all ranks, stacked (group size, …), elsewhere zeros of that shape; the
/// gradient of dst is scattered.
at::Tensor gather(const at::Tensor& tensor, Member dst, const Group& group);

}  // namespace differentiable
}  // namespace tessera
