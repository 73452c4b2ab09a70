#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/axis.h"
#include "tessera/topology/group_range.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

class RankTable;

/// One index per axis, in the order of the layout's axes.
using Coordinate = std::vector<int64_t>;
/// Axes by name.
using AxisNames = std::vector<std::string>;

/// N ranks laid out as a grid of named axes, from which groups, meshes and pictures are derived. An
/// immutable value that is cheap to copy; needs no processes and no torch.
///
///   const Layout mesh = Layout::row_major({{"dp", 2}, {"tp", 4}});   // tp varies fastest
///   mesh.group_of(GlobalRank{5}, {"tp"});                            // 4 5 6 7
///   mesh.group_of(GlobalRank{5}, {"dp"});                            // 1 5
///
/// ConfigError for wrong axes, sizes, coordinates and ranks.
///
/// Accessors to the inside of a value return a copy if the value is a temporary (here and in other
/// classes): `for (const Axis& axis : Layout::row_major(sizes).axes())` is safe.
class Layout {
 public:
  /// The last axis varies fastest: OLMo's, NeMo's and PyTorch's convention.
  static Layout row_major(const AxisSizes& axes);

  /// The first axis varies fastest and the first rank is `origin`: Megatron's convention.
  static Layout first_fastest(const AxisSizes& axes, GlobalRank origin = {});

  /// Row-major positions renamed by an explicit list of ranks, sorted or not.
  static Layout from_ranks(const AxisSizes& axes, std::span<const GlobalRank> ranks);

  /// In the order of a coordinate.
  std::span<const Axis> axes() const& { return axes_; }
  std::vector<Axis> axes() && { return std::move(axes_); }
  /// In the order of a coordinate.
  AxisNames axis_names() const;
  /// Whether it has an axis of this name.
  bool has_axis(std::string_view name) const;
  /// ConfigError with the nearest name if there is none.
  const Axis& axis(std::string_view name) const&;
  Axis axis(std::string_view name) && { return axis(name); }
  /// The number of ranks.
  int64_t size() const { return size_; }
  /// Whether a list names the ranks, which the strides of the axes then do not tell.
  bool is_listed() const { return table_ != nullptr; }
  /// Every rank, in row-major order of the axes.
  RankGroup ranks() const;
  /// The highest of ranks().
  GlobalRank largest_rank() const;

  /// Whether the rank is in the grid.
  bool contains(GlobalRank rank) const;
  /// Where the rank is in the grid: on all axes, or its index on one.
  Coordinate coordinate(GlobalRank rank) const;
  int64_t coordinate(GlobalRank rank, std::string_view axis) const;
  /// The inverse of coordinate().
  GlobalRank rank(std::span<const int64_t> coordinate) const;

  /// The sub-grid of these axes, in this order, that contains `through`.
  Layout select(const AxisNames& names, GlobalRank through) const;
  /// Joins the named axes, adjacent or not, into one, the first one slowest and giving the place.
  Layout flatten(const AxisNames& names, const std::string& name) const;
  /// Splits one axis into several, the first part slowest: the inverse of flatten.
  Layout split(std::string_view name, const AxisSizes& parts) const;
  /// The same ranks with the axes in another order.
  Layout permute(const AxisNames& names) const;
  /// Joins sub-grids of one layout that all contain `through` into one grid with all their axes.
  /// ConfigError if axes overlap in their ranks.
  static Layout concatenate(std::span<const Layout> parts, GlobalRank through);

  /// Ranks per group along the named axes.
  int64_t group_size(const AxisNames& names) const;
  /// Groups along the named axes; together they hold every rank once.
  int64_t num_groups(const AxisNames& names) const;

  /// The ranks that differ from `rank` only along the named axes. Costs O(size of the group).
  ///
  /// Axes nest by their strides, whatever the order of their names; a flattened axis counts by its
  /// own index. On a plain grid, the members thus have increasing positions.
  RankGroup group_of(GlobalRank rank, const AxisNames& names) const;
  /// The index of group_of(rank, names) in groups(names).
  int64_t group_index(GlobalRank rank, const AxisNames& names) const;
  /// All groups along the named axes, each computed on access.
  GroupRange groups(const AxisNames& names) const;

  /// "[tp=8:1 dp=4:8 pp=2:32]": the size and stride of each axis.
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const Layout& layout) {
    return out << layout.to_string();
  }

  /// Equal names, sizes and ranks at every coordinate.
  friend TSR_API bool operator==(const Layout& a, const Layout& b);

 private:
  Layout(std::vector<Axis> axes, int64_t origin, std::shared_ptr<const RankTable> table);

  size_t axis_index(std::string_view name) const;
  std::vector<size_t> axis_indices(const AxisNames& names) const;
  /// These axes, slowest first.
  std::vector<size_t> nested(std::vector<size_t> axes) const;
  /// The extents of these axes, slowest axis first.
  std::vector<Extent> nested_extents(std::vector<size_t> axes) const;
  std::vector<size_t> other_axes(const std::vector<size_t>& axes) const;
  RankGroup ranks_along(int64_t first, std::span<const Extent> extents) const;
  std::optional<int64_t> position_of(GlobalRank rank) const;
  std::optional<Coordinate> find(GlobalRank rank) const;
  int64_t position(std::span<const int64_t> coordinate) const;
  void check_axes_are_apart() const;
  /// The position of `rank` with its index on these axes set to 0.
  int64_t first_position(GlobalRank rank, const std::vector<size_t>& axes) const;

  /// One extent of one axis, as a digit of a position.
  struct Digit {
    Extent extent;
    size_t axis = 0;
    int64_t weight = 1;  // One step adds this to the index of the axis.
  };

  std::vector<Axis> axes_;
  std::vector<Digit> digits_;  // Largest stride first, to decompose a position greedily.
  int64_t size_ = 1;
  int64_t origin_ = 0;                      // The position at coordinate 0.
  std::shared_ptr<const RankTable> table_;  // Null: a position is its rank. Shared by sub-layouts.
};

}  // namespace tessera
