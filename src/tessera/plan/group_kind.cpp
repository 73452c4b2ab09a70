#include "tessera/plan/group_kind.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

RankGroup pick(RankGroup line, Members members) {
  switch (members) {
    case Members::kAll:
      return line;
    case Members::kEnds:
      return line.size() == 1 ? line : RankGroup{line.front(), line.back()};
    case Members::kFirst:
      return {line.front()};
  }
  TSR_ASSERT(false, "a value of Members has no meaning");
  return {};
}

}  // namespace

GroupKind::GroupKind(std::string name, std::string label, Layout layout, AxisNames axes,
                     Members members)
    : name_(std::move(name)),
      label_(std::move(label)),
      layout_(std::move(layout)),
      axes_(std::move(axes)),
      members_(members) {}

int64_t GroupKind::size() const {
  const int64_t line = layout_.group_size(axes_);
  switch (members_) {
    case Members::kAll:
      return line;
    case Members::kEnds:
      return std::min<int64_t>(line, 2);
    case Members::kFirst:
      return 1;
  }
  TSR_ASSERT(false, "a value of Members has no meaning");
  return 0;
}

std::optional<RankGroup> GroupKind::group_of(GlobalRank rank) const {
  RankGroup group = pick(layout_.group_of(rank, axes_), members_);
  const bool member = members_ == Members::kAll || std::ranges::find(group, rank) != group.end();
  return member ? std::optional(std::move(group)) : std::nullopt;
}

RankGroup GroupKind::group(int64_t index) const {
  return pick(layout_.groups(axes_)[index], members_);
}

std::vector<RankGroup> GroupKind::groups() const {
  std::vector<RankGroup> groups;
  for (RankGroup line : layout_.groups(axes_)) groups.push_back(pick(std::move(line), members_));
  return groups;
}

}  // namespace tessera
