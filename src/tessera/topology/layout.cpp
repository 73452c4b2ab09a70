#include "tessera/topology/layout.h"

#include <algorithm>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/base/reversed.h"
#include "tessera/topology/rank_table.h"

namespace tessera {
namespace {

// Axes over the positions 0..N-1, the first one fastest.
std::vector<Axis> dense_axes(const auto& sizes) {
  std::vector<Axis> axes;
  int64_t stride = 1;
  for (const auto& [name, size] : sizes) {
    TSR_CHECK(!name.empty(), "an axis of size ", size, " has no name; give every axis a name");
    TSR_CHECK(size > 0, "axis '", name, "' has size ", size, "; sizes must be at least 1");
    axes.emplace_back(name, std::vector<Extent>{{size, stride}});
    stride = checked_multiply(stride, size, "the number of ranks");
  }
  return axes;
}

std::vector<Axis> row_major_axes(const AxisSizes& sizes) {
  std::vector<Axis> axes = dense_axes(reversed(sizes));
  std::ranges::reverse(axes);
  return axes;
}

// Whether the list is first, first + 1, …, so that no table is needed.
bool is_consecutive(std::span<const GlobalRank> ranks) {
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].value < 0 || ranks[i].value - ranks[0].value != static_cast<int64_t>(i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

Layout::Layout(std::vector<Axis> axes, int64_t origin, std::shared_ptr<const RankTable> table)
    : axes_(std::move(axes)), origin_(origin), table_(std::move(table)) {
  for (size_t a = 0; a < axes_.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      TSR_CHECK(axes_[a].name() != axes_[b].name(), "axis '", axes_[a].name(),
                "' appears twice; give every axis its own name");
    }
    size_ *= axes_[a].size();
    int64_t weight = axes_[a].size();
    for (const Extent extent : axes_[a].extents()) {
      weight /= extent.size;
      digits_.push_back({extent, a, weight});
    }
  }
  std::ranges::sort(digits_, std::greater{}, [](const Digit& d) { return d.extent.stride; });
}

Layout Layout::row_major(const AxisSizes& axes) {
  return Layout(row_major_axes(axes), 0, nullptr);
}

Layout Layout::first_fastest(const AxisSizes& axes, GlobalRank origin) {
  TSR_CHECK(origin.value >= 0, "the first rank is ", origin, "; ranks must be at least 0");
  Layout layout(dense_axes(axes), origin.value, nullptr);
  TSR_CHECK(origin.value <= std::numeric_limits<int64_t>::max() - layout.size(), "rank offset ",
            origin, " plus ", layout.size(), " ranks overflows 64 bits; choose a smaller offset");
  return layout;
}

Layout Layout::from_ranks(const AxisSizes& axes, std::span<const GlobalRank> ranks) {
  Layout grid = row_major(axes);
  TSR_CHECK(grid.size() == static_cast<int64_t>(ranks.size()), "a grid ", grid, " of ", grid.size(),
            " positions was given a list of ", ranks.size(),
            " ranks; the product of the sizes must be the length of the list");
  if (is_consecutive(ranks)) {
    grid.origin_ = ranks.empty() ? 0 : ranks[0].value;
  } else {
    grid.table_ = std::make_shared<const RankTable>(ranks);
  }
  return grid;
}

AxisNames Layout::axis_names() const {
  AxisNames names;
  for (const Axis& axis : axes_) names.push_back(axis.name());
  return names;
}

bool Layout::has_axis(std::string_view name) const {
  return std::ranges::find(axes_, name, &Axis::name) != axes_.end();
}

const Axis& Layout::axis(std::string_view name) const& {
  return axes_[axis_index(name)];
}

RankGroup Layout::ranks() const {
  std::vector<Extent> extents;
  for (const Axis& axis : axes_) {
    extents.insert(extents.end(), axis.extents().begin(), axis.extents().end());
  }
  return ranks_along(origin_, extents);
}

GlobalRank Layout::largest_rank() const {
  if (table_) return std::ranges::max(ranks());
  Coordinate last;
  for (const Axis& axis : axes_) last.push_back(axis.size() - 1);
  return rank(last);
}

bool Layout::contains(GlobalRank rank) const {
  return find(rank).has_value();
}

Coordinate Layout::coordinate(GlobalRank rank) const {
  std::optional<Coordinate> found = find(rank);
  TSR_CHECK(found.has_value(), "rank ", rank, " is not in the layout ", *this, " of ", size_,
            " ranks");
  return *std::move(found);
}

int64_t Layout::coordinate(GlobalRank rank, std::string_view axis) const {
  return coordinate(rank)[axis_index(axis)];
}

GlobalRank Layout::rank(std::span<const int64_t> coordinate) const {
  const int64_t at = position(coordinate);
  return table_ ? table_->rank(at) : GlobalRank{at};
}

Layout Layout::select(const AxisNames& names, GlobalRank through) const {
  const std::vector<size_t> chosen = axis_indices(names);
  std::vector<Axis> axes;
  for (const size_t i : chosen) axes.push_back(axes_[i]);
  return Layout(std::move(axes), first_position(through, chosen), table_);
}

Layout Layout::flatten(const AxisNames& names, const std::string& name) const {
  TSR_CHECK(!names.empty(), "no axis to flatten into '", name, "'; give at least one of ",
            join(axis_names(), ", "));
  TSR_CHECK(!name.empty(), "the flattened axis has no name; give it one");
  const std::vector<size_t> chosen = axis_indices(names);
  std::vector<Extent> extents;
  for (const size_t i : chosen) {
    extents.insert(extents.end(), axes_[i].extents().begin(), axes_[i].extents().end());
  }
  std::vector<Axis> axes;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (i == chosen[0]) axes.emplace_back(name, extents);
    if (std::ranges::find(chosen, i) == chosen.end()) axes.push_back(axes_[i]);
  }
  return Layout(std::move(axes), origin_, table_);
}

Layout Layout::split(std::string_view name, const AxisSizes& parts) const {
  const size_t at = axis_index(name);
  std::vector<Axis> axes(axes_.begin(), axes_.end());
  const std::vector<Axis> cut = axes[at].split(parts);
  axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(at));
  axes.insert(axes.begin() + static_cast<std::ptrdiff_t>(at), cut.begin(), cut.end());
  return Layout(std::move(axes), origin_, table_);
}

Layout Layout::permute(const AxisNames& names) const {
  TSR_CHECK(names.size() == axes_.size(), "permute was given ", names.size(), " of ", axes_.size(),
            " axes; give each of ", join(axis_names(), ", "), " once");
  std::vector<Axis> axes;
  for (const size_t i : axis_indices(names)) axes.push_back(axes_[i]);
  return Layout(std::move(axes), origin_, table_);
}

Layout Layout::concatenate(std::span<const Layout> parts, GlobalRank through) {
  TSR_CHECK(!parts.empty(), "no layouts were given to concatenate; give at least 1");
  std::vector<Axis> axes;
  const int64_t at = parts[0].position_of(through).value_or(0);  // The same in every part.
  int64_t origin = at;
  for (const Layout& part : parts) {
    TSR_CHECK(part.contains(through) && part.table_ == parts[0].table_, "the layouts ", parts[0],
              " and ", part, " were not selected from one layout through rank ", through,
              "; concatenate only such layouts");
    origin -= at - part.origin_;
    axes.insert(axes.end(), part.axes_.begin(), part.axes_.end());
  }
  Layout joined(std::move(axes), origin, parts[0].table_);
  joined.check_axes_are_apart();
  TSR_CHECK(origin >= 0, "the layouts ", join(parts, ", "),
            " were not selected from one layout: together they start before rank 0");
  return joined;
}

int64_t Layout::group_size(const AxisNames& names) const {
  int64_t size = 1;
  for (const size_t i : axis_indices(names)) size *= axes_[i].size();
  return size;
}

int64_t Layout::num_groups(const AxisNames& names) const {
  return size_ / group_size(names);
}

RankGroup Layout::group_of(GlobalRank rank, const AxisNames& names) const {
  const std::vector<size_t> chosen = axis_indices(names);
  return ranks_along(first_position(rank, chosen), nested_extents(chosen));
}

int64_t Layout::group_index(GlobalRank rank, const AxisNames& names) const {
  const Coordinate at = coordinate(rank);
  int64_t index = 0;
  for (const size_t i : nested(other_axes(axis_indices(names)))) {
    index = index * axes_[i].size() + at[i];
  }
  return index;
}

GroupRange Layout::groups(const AxisNames& names) const {
  const std::vector<size_t> chosen = axis_indices(names);
  return GroupRange(origin_, nested_extents(chosen), nested_extents(other_axes(chosen)), table_);
}

std::string Layout::to_string() const {
  std::vector<std::string> parts;
  for (const Axis& axis : axes_) parts.push_back(axis.to_string());
  std::string text = concat("[", join(parts, " "), "]");
  if (table_) {
    RankGroup shown = ranks();
    const bool cut = shown.size() > 16;
    if (cut) shown.resize(16);
    text += concat(" over ranks ", join(shown, ","), cut ? ",…" : "");
  } else if (origin_ != 0) {
    text += concat(" from rank ", origin_);
  }
  return text;
}

bool operator==(const Layout& a, const Layout& b) {
  if (a.axis_names() != b.axis_names()) return false;
  if (!a.table_ && !b.table_) return a.origin_ == b.origin_ && a.axes_ == b.axes_;
  return std::ranges::equal(a.axes_, b.axes_, {}, &Axis::size, &Axis::size) &&
         a.ranks() == b.ranks();
}

size_t Layout::axis_index(std::string_view name) const {
  const auto at = std::ranges::find(axes_, name, &Axis::name);
  TSR_CHECK(at != axes_.end(), "the layout ", *this, " has no axis '", name, "'",
            did_you_mean(name, axis_names()));
  return static_cast<size_t>(at - axes_.begin());
}

std::vector<size_t> Layout::axis_indices(const AxisNames& names) const {
  std::vector<size_t> indices;
  for (const std::string& name : names) {
    const size_t index = axis_index(name);
    TSR_CHECK(std::ranges::find(indices, index) == indices.end(), "axis '", name,
              "' appears twice; give every axis once");
    indices.push_back(index);
  }
  return indices;
}

std::vector<size_t> Layout::nested(std::vector<size_t> axes) const {
  std::ranges::stable_sort(axes, std::greater{}, [this](size_t i) { return axes_[i].reach(); });
  return axes;
}

std::vector<Extent> Layout::nested_extents(std::vector<size_t> axes) const {
  std::vector<Extent> extents;
  for (const size_t i : nested(std::move(axes))) {
    extents.insert(extents.end(), axes_[i].extents().begin(), axes_[i].extents().end());
  }
  return extents;
}

std::vector<size_t> Layout::other_axes(const std::vector<size_t>& axes) const {
  std::vector<size_t> others;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (std::ranges::find(axes, i) == axes.end()) others.push_back(i);
  }
  return others;
}

RankGroup Layout::ranks_along(int64_t first, std::span<const Extent> extents) const {
  RankGroup ranks = positions_along(first, extents);
  if (table_) table_->rename(ranks);
  return ranks;
}

std::optional<int64_t> Layout::position_of(GlobalRank rank) const {
  return table_ ? table_->position(rank) : rank.value;
}

std::optional<Coordinate> Layout::find(GlobalRank rank) const {
  const std::optional<int64_t> found = position_of(rank);
  if (!found || *found < origin_) return std::nullopt;
  int64_t rest = *found - origin_;
  Coordinate coordinate(axes_.size(), 0);
  for (const auto& [extent, axis, weight] : digits_) {
    const int64_t digit = rest / extent.stride;
    if (digit >= extent.size) return std::nullopt;
    coordinate[axis] += digit * weight;
    rest %= extent.stride;
  }
  return rest == 0 ? std::optional(std::move(coordinate)) : std::nullopt;
}

int64_t Layout::position(std::span<const int64_t> coordinate) const {
  TSR_CHECK(coordinate.size() == axes_.size(), "a coordinate of ", coordinate.size(),
            " indices was given for the ", axes_.size(), " axes of ", *this);
  int64_t at = origin_;
  for (size_t i = 0; i < axes_.size(); ++i) {
    TSR_CHECK(0 <= coordinate[i] && coordinate[i] < axes_[i].size(), "index ", coordinate[i],
              " is outside axis '", axes_[i].name(), "'; it has indices 0 to ",
              axes_[i].size() - 1);
    at += axes_[i].offset(coordinate[i]);
  }
  return at;
}

// Each digit must step over whole rounds of the next smaller one. Otherwise a rank could be reached
// in two ways, or other ranks would see other grids.
void Layout::check_axes_are_apart() const {
  for (size_t i = 1; i < digits_.size(); ++i) {
    const auto [size, stride] = digits_[i].extent;
    TSR_CHECK(digits_[i - 1].extent.stride % (size * stride) == 0, "the axes ",
              axes_[digits_[i - 1].axis].to_string(), " and ", axes_[digits_[i].axis].to_string(),
              " overlap in their ranks; choose one of them");
  }
}

int64_t Layout::first_position(GlobalRank rank, const std::vector<size_t>& axes) const {
  Coordinate at = coordinate(rank);
  for (const size_t i : axes) at[i] = 0;
  return position(at);
}

}  // namespace tessera
