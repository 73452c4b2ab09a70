#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/topology/layout.h"
#include "tessera/topology/rank.h"

namespace tessera {

/// Which members of a line of ranks form the group.
enum class Members {
  kAll,
  kEnds,   // The first and the last one: the stages that hold the word embeddings.
  kFirst,  // The first one: the stage that holds the position embeddings.
};

/// One kind of group: for every line of a layout along some axes, the group of its members.
/// A value without any list in it: groups are made when they are asked for.
class GroupKind {
 public:
  GroupKind(std::string name, std::string label, Layout layout, AxisNames axes,
            Members members = Members::kAll);

  /// Megatron's description, such as TENSOR_MODEL_PARALLEL_GROUP.
  const std::string& name() const { return name_; }
  /// The short form for people, such as "tp".
  const std::string& label() const { return label_; }
  const Layout& layout() const { return layout_; }
  const AxisNames& axes() const { return axes_; }
  Members members() const { return members_; }

  int64_t size() const;
  int64_t count() const { return layout_.num_groups(axes_); }

  /// The group that `rank` is in, in O(its line); nothing where it is in none of this kind.
  std::optional<RankGroup> group_of(GlobalRank rank) const;
  /// The group of line `index`, in Megatron's order of creation.
  RankGroup group(int64_t index) const;
  /// All groups, in Megatron's order of creation.
  std::vector<RankGroup> groups() const;

 private:
  std::string name_;
  std::string label_;
  Layout layout_;
  AxisNames axes_;
  Members members_;
};

}  // namespace tessera
