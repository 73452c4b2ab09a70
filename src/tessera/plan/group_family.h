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

/// Which ranks of a line form groups.
struct Whole {  // All of them: one group a line.
  friend bool operator==(Whole, Whole) = default;
};
struct Ends {  // The first and the last: the stages that hold the word embeddings.
  friend bool operator==(Ends, Ends) = default;
};
struct First {  // The first: the stage that holds the position embeddings.
  friend bool operator==(First, First) = default;
};
/// Several groups a line, each of `size` ranks that stand `stride` apart. Consecutive ones (stride
/// 1) may leave a shorter group at the end.
struct Cut {
  int64_t size = 1;
  int64_t stride = 1;
  friend bool operator==(const Cut&, const Cut&) = default;
};
/// What a callback chose: one list a line, of ranks of that line, in any order.
struct Chosen {
  std::vector<RankGroup> lists;
  friend bool operator==(const Chosen&, const Chosen&) = default;
};
using Selection = std::variant<Whole, Ends, First, Cut, Chosen>;

/// In which order a whole line is listed; who is in a group is the same.
enum class Listing {
  kByStride,  // In increasing position, as Layout does.
  kByName,    // As the axes are named, the first one slowest.
};

/// The groups along some axes of a layout: for every line of ranks, those that are selected.
///
/// A value without lists in it (but for a callback's): groups are made when they are asked for. A
/// rank is in at most one of them.
class GroupFamily {
 public:
  /// A cut or lists that do not fit the lines raise ConfigError.
  GroupFamily(Layout layout, AxisNames axes, Selection selection = Whole{},
              Listing listing = Listing::kByStride);

  const Layout& layout() const& { return layout_; }
  Layout layout() && { return std::move(layout_); }
  const AxisNames& axes() const& { return axes_; }
  AxisNames axes() && { return std::move(axes_); }
  const Selection& selection() const& { return selection_; }
  Selection selection() && { return std::move(selection_); }

  /// How many ranks the largest group has.
  int64_t size() const;
  int64_t count() const { return num_lines_ * groups_per_line_; }
  int64_t num_lines() const { return num_lines_; }
  int64_t groups_per_line() const { return groups_per_line_; }
  /// Whether every rank of the layout is in a group.
  bool covers() const;

  /// The group that `rank` is in, in O(its line); nothing where it is in none.
  ///
  /// Members stand in the order of their group ranks: that of the layout, and of increasing ranks
  /// for a callback's list.
  std::optional<RankGroup> group_of(GlobalRank rank) const;
  /// The number of that group, counted line by line.
  std::optional<int64_t> index_of(GlobalRank rank) const;
  /// Group number `index`.
  RankGroup group(int64_t index) const;
  /// All groups.
  std::vector<RankGroup> groups() const;

  /// The lines, and the groups of one of them, as they are listed where groups are created:
  /// callbacks' lists and Listing::kByName stand as they are.
  GroupRange listed_lines() const;
  std::vector<RankGroup> listed_groups(int64_t line_index, RankGroup line) const;
  /// Group number `index` as it is listed.
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
