#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/axis.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

class RankTable;

/// All groups along some axes of a layout. A group is computed on access.
class GroupRange {
 public:
  /// `within` leads from a group's first member to the others, `between` from group to group; both
  /// slowest first. `table` is null if positions are ranks.
  GroupRange(int64_t origin, std::span<const Extent> within, std::vector<Extent> between,
             std::shared_ptr<const RankTable> table);

  /// The number of groups.
  int64_t size() const { return num_groups_; }
  /// Ranks per group, the same for all.
  int64_t group_size() const { return static_cast<int64_t>(first_.size()); }
  RankGroup operator[](int64_t index) const;

  /// Computes a group when it is reached.
  class Iterator {
   public:
    /// Marks a forward iterator.
    using iterator_concept = std::forward_iterator_tag;
    /// One group, with its members in order.
    using value_type = RankGroup;
    /// Needed by the standard library; iterators cannot be subtracted.
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const GroupRange* range, int64_t index) : range_(range), index_(index) {}
    RankGroup operator*() const { return (*range_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++index_;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const GroupRange* range_ = nullptr;
    int64_t index_ = 0;
  };

  /// At group 0. Iterators must not outlive the range.
  Iterator begin() const { return {this, 0}; }
  /// After the last group.
  Iterator end() const { return {this, num_groups_}; }

 private:
  RankGroup first_;  // The positions of group 0; every other group is a shifted copy.
  std::vector<Extent> between_;
  int64_t num_groups_ = 1;
  std::shared_ptr<const RankTable> table_;
};

}  // namespace tessera
