#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// The elements of a tensor that a rank holds: a box, or a run of consecutive elements of a box in
/// its row-major order.
///
///   Part({8, 4}).cut(0, 2, 1)           // Rows 4 to 8, as tensor parallelism shards.
///   Part({8, 4}).cut(0, 2, 1).run({0, 6})  // Their first 6 elements, as FSDP shards.
class Part {
 public:
  /// A whole tensor.
  explicit Part(std::vector<int64_t> shape);

  /// Piece `index` of `pieces` of this box along a dimension, by the rule of chunk(). StateError
  /// if this part is already a run.
  Part cut(size_t dim, int64_t pieces, int64_t index) const;
  /// A run of this part's elements. ConfigError if it does not have them.
  Part run(Span elements) const;

  /// The shape of the whole tensor.
  const std::vector<int64_t>& shape() const& { return shape_; }
  std::vector<int64_t> shape() && { return std::move(shape_); }
  /// The box whose elements the rank holds, all or a run of them.
  const Box& box() const& { return box_; }
  Box box() && { return std::move(box_); }
  /// Which of the box's elements, flattened.
  Span elements() const { return elements_; }
  /// Elements that the rank holds.
  int64_t numel() const { return elements_.size(); }
  /// Whether the rank holds all elements of the tensor.
  bool is_whole() const;
  /// The elements as runs of the flattened tensor, in the order in which the part holds them.
  std::vector<Span> spans() const;
  /// The elements as boxes of the tensor: one after the other, each row-major, they are the part's
  /// elements in its order. None for an empty part; at most 2d - 1 for a run in d dimensions.
  std::vector<Box> boxes() const;

  friend bool operator==(const Part&, const Part&) = default;

 private:
  std::vector<int64_t> shape_;
  Box box_;
  Span elements_;  // Relative to the box.
};

/// The parts' elements one after the other, in `pieces` by the rule of chunk(): what of each part
/// lies in piece `index`, maybe nothing.
std::vector<Part> cut_flat(const std::vector<Part>& parts, int64_t pieces, int64_t index);

}  // namespace tessera
