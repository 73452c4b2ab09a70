#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/layout.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// All ranks of a line: one group per line.
struct Whole {
  friend bool operator==(Whole, Whole) = default;
};
/// The first and the last: the stages that hold the word embeddings.
struct Ends {
  friend bool operator==(Ends, Ends) = default;
};
/// The first: the stage that holds the position embeddings.
struct First {
  friend bool operator==(First, First) = default;
};
/// Several groups per line.
struct Cut {
  int64_t size = 1;    // Ranks per group; with stride 1, the last group may be shorter.
  int64_t stride = 1;  // From one rank of a group to the next, in positions of the line.
  friend bool operator==(const Cut&, const Cut&) = default;
};
/// Chosen by a callback.
struct Chosen {
  std::vector<RankGroup> lists;  // One per line: ranks of that line, in any order.
  friend bool operator==(const Chosen&, const Chosen&) = default;
};
/// Which members of each group along an axis a group has.
using Selection = std::variant<Whole, Ends, First, Cut, Chosen>;

/// The order in which a whole line is listed; the members are the same.
enum class Listing {
  kByStride,  // By increasing position, as Layout does.
  kByName,    // In the order of the axes' names, the first axis slowest.
};

/// The groups along some axes of a layout: the selected ranks of each line.
///
/// Stores no lists of ranks, except a callback's: groups are computed on demand. A rank is in at
/// most one of them.
class GroupFamily {
 public:
  /// ConfigError if a cut or a list does not fit the lines.
  GroupFamily(Layout layout, AxisNames axes, Selection selection = Whole{},
              Listing listing = Listing::kByStride);

  /// The ranks that lines are taken from.
  const Layout& layout() const& { return layout_; }
  Layout layout() && { return std::move(layout_); }
  /// The axes along which lines run.
  const AxisNames& axes() const& { return axes_; }
  AxisNames axes() && { return std::move(axes_); }
  /// Which ranks of a line form groups.
  const Selection& selection() const& { return selection_; }
  Selection selection() && { return std::move(selection_); }

  /// The number of ranks in the largest group.
  int64_t size() const;
  /// The number of groups, over all lines.
  int64_t count() const { return num_lines_ * groups_per_line_; }
  /// The number of lines: ranks of the layout / ranks per line.
  int64_t num_lines() const { return num_lines_; }
  /// 1 unless lines are cut.
  int64_t groups_per_line() const { return groups_per_line_; }
  /// Whether every rank of the layout is in a group.
  bool covers() const;

  /// The group of `rank`, in O(line length); nothing if the rank is in no group.
  ///
  /// Members are in the order of their group ranks: the layout's order, or increasing global ranks
  /// for a callback's list.
  std::optional<RankGroup> group_of(GlobalRank rank) const;
  /// The index of that group, counted line by line.
  std::optional<int64_t> index_of(GlobalRank rank) const;
  /// Group number `index`.
  RankGroup group(int64_t index) const;
  /// All groups.
  std::vector<RankGroup> groups() const;

  /// The lines in the order in which groups are created, each with its ranks in the order of
  /// Listing.
  GroupRange listed_lines() const;
  /// The groups of line number `line_index`, whose ranks are `line`, in the order in which they are
  /// created; a callback's list keeps its own order.
  std::vector<RankGroup> listed_groups(int64_t line_index, RankGroup line) const;
  /// Group number `index` in that order.
  RankGroup listed(int64_t index) const;

  friend bool operator==(const GroupFamily&, const GroupFamily&) = default;

 private:
  Layout layout_;
  AxisNames axes_;
  Selection selection_;
  Listing listing_;
  int64_t line_size_;
  int64_t num_lines_;
  int64_t groups_per_line_;
};

}  // namespace tessera
