#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/group.h"
#include "tessera/topology/rank.h"

/// Differentiable collectives. **Collective** in the forward and in the backward pass: every rank
/// of the group must run both. The backward of each is its partner: all_gather and reduce_scatter,
/// all_reduce and identity, all_to_all and itself, scatter and gather.
namespace tessera {
namespace differentiable TSR_API {

/// Concatenates along `dim`. The backward is reduce_scatter.
at::Tensor all_gather(const at::Tensor& tensor, const Group& group, int64_t dim = 0);
/// Sums, and splits along `dim` into equal pieces. The backward is all_gather.
at::Tensor reduce_scatter(const at::Tensor& tensor, const Group& group, int64_t dim = 0);
/// Sums. The backward is the identity: right if every rank continues with the same computation on
/// the sum.
at::Tensor all_reduce(const at::Tensor& tensor, const Group& group);
/// Returns the tensor. The backward is all_reduce.
at::Tensor identity(const at::Tensor& tensor, const Group& group);
/// Exchanges rows. The backward sends the gradient's rows back.
at::Tensor all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                      const Group& group);
/// all_to_all() in two parts, with other work in between, e.g. the products of another branch:
///
///   const InFlight rows = start_all_to_all(x, send, receive, group);
///   const at::Tensor y = other(x);
///   const at::Tensor arrived = finish(rows);
///
/// In the backward pass finish() starts the exchange of the gradients, and start_all_to_all() waits
/// for it. Autograd runs nodes that were made later first, so the backward of the other work is in
/// between.
struct InFlight {
  struct Works;
  at::Tensor tensor = {};             // Carries the gradient from finish() to start_all_to_all().
  std::shared_ptr<Works> works = {};  // The operations, shared with the backward pass.
};
/// Starts the exchange of rows; pass the result to finish().
InFlight start_all_to_all(const at::Tensor& tensor, const Sizes& send, const Sizes& receive,
                          const Group& group);
/// Once per InFlight.
at::Tensor finish(const InFlight& started);
/// This rank's entry of src's tensor of shape (group size, …). The backward gathers the gradients
/// on src. Other ranks pass a tensor of the same shape; its values are ignored, its gradient is
/// zero.
at::Tensor scatter(const at::Tensor& pieces, Member src, const Group& group);
/// On dst the tensors of all ranks, stacked to (group size, …); zeros of that shape elsewhere. The
/// backward scatters the gradient of dst.
at::Tensor gather(const at::Tensor& tensor, Member dst, const Group& group);

/// One direction of linear_map().
using Map = std::function<at::Tensor(const at::Tensor&)>;
/// For further pairs: `forward` of the tensor; the backward is `backward` of the gradient.
/// `forward` must be linear and return a new tensor, and `backward` must be its transpose over all
/// ranks.
at::Tensor linear_map(const at::Tensor& tensor, const Map& forward, const Map& backward);

}  // namespace differentiable
}  // namespace tessera
