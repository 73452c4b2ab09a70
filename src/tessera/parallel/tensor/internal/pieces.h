#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/work.h"
#include "tessera/topology/box.h"

/// Collectives in pieces, as messages on a lane of their own, to overlap them with products.
namespace tessera::tensor::detail {

/// Some of a rank's positions. Each rank's are cut into a few pieces, so that a product can start
/// before all of them have arrived, or be sent before all of them are computed.
struct Piece {
  int64_t rank = 0;
  Span positions = {};  // Of that rank's own.
};

/// An all-gather along the positions, whose pieces can be used as they arrive.
class GatherInPieces {
 public:
  /// Starts it.
  GatherInPieces(const at::Tensor& mine, const Group& group);

  /// Calls `use` with all pieces: this rank's positions first, as one, then those of the next
  /// ranks.
  void for_each(const std::function<void(const Piece& piece, const at::Tensor& values)>& use);
  /// All pieces, concatenated. Call it after for_each().
  at::Tensor whole() const;

 private:
  struct Arriving {
    Piece piece;
    at::Tensor values;
    ListWork work;
  };
  at::Tensor mine_;
  int64_t rank_;
  int64_t size_;
  std::vector<Arriving> arriving_ = {};  // From the next rank, the one after it, ….
};

/// A reduce-scatter of `positions` per rank, whose pieces are sent as they are computed. `compute`
/// returns this rank's part of a piece's sum; it is called for the next rank first, and last for
/// all positions of this rank. The parts are added in rank order.
at::Tensor reduce_scatter_in_pieces(const std::function<at::Tensor(const Piece& piece)>& compute,
                                    int64_t positions, const Group& group);

}  // namespace tessera::tensor::detail
