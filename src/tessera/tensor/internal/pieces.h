#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/topology/box.h"

namespace tessera::tensor::detail {

/// The pieces of one dimension of a local tensor, one per rank of an axis.
class Pieces {
 public:
  /// `size` is the unsharded size of the dimension.
  Pieces(int64_t dim, int64_t size, int64_t split_factor, int64_t num_ranks);

  int64_t dim() const { return dim_; }
  int64_t size_of(int64_t rank) const { return sizes_[static_cast<size_t>(rank)]; }
  /// Whether the pieces of a contiguous tensor are equal and consecutive in memory. The size of
  /// this dimension in `shape` is ignored.
  bool are_blocks_of(at::IntArrayRef shape) const;

  /// `shape` with this dimension replaced by the size of the rank's piece.
  std::vector<int64_t> shape_of(at::IntArrayRef like, int64_t rank) const;
  std::vector<int64_t> whole_shape(at::IntArrayRef like) const;
  /// A new tensor.
  at::Tensor take(const at::Tensor& whole, int64_t rank) const;
  /// Copies a piece out of the tensor, or back into it.
  void copy_out(const at::Tensor& whole, int64_t rank, const at::Tensor& piece) const;
  void copy_in(const at::Tensor& whole, int64_t rank, const at::Tensor& piece) const;

 private:
  int64_t dim_;
  int64_t size_;
  bool even_;
  std::vector<Runs> runs_;  // By rank.
  std::vector<int64_t> sizes_;
};

}  // namespace tessera::tensor::detail
