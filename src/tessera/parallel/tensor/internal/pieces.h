#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/work.h"

/// Collectives in pieces, as messages on a lane of their own, to overlap them with products.
namespace tessera::tensor::detail {

/// An all-gather along the positions, whose pieces can be used as they arrive.
class GatherInPieces {
 public:
  /// Starts it.
  GatherInPieces(const at::Tensor& mine, const Group& group);

  /// Calls `use` once per rank with its piece: this rank's own first, then those of the next ranks.
  void for_each(const std::function<void(int64_t rank, const at::Tensor& piece)>& use);
  /// All pieces, concatenated. Call it after for_each().
  at::Tensor whole() const;

 private:
  at::Tensor mine_;
  at::Tensor all_;  // [ranks, batch, positions, …]; this rank's own entry is empty until whole().
  int64_t rank_;
  std::vector<ListWork> arriving_ = {};  // From the next rank, the one after it, ….
};

/// A reduce-scatter whose pieces are sent as they are computed. `piece` returns this rank's part of
/// another rank's sum; it is called once per rank, for the next rank first and for this rank last.
/// The parts are added in rank order.
at::Tensor reduce_scatter_in_pieces(const std::function<at::Tensor(int64_t rank)>& piece,
                                    const Group& group);

}  // namespace tessera::tensor::detail
