#include "tessera/plan/group_family.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

int64_t size_of(const RankGroup& group) {
  return static_cast<int64_t>(group.size());
}

bool contains(const RankGroup& group, GlobalRank rank) {
  return std::ranges::find(group, rank) != group.end();
}

RankGroup ends_of(const RankGroup& line) {
  return line.size() == 1 ? line : RankGroup{line.front(), line.back()};
}

RankGroup sorted(RankGroup group) {
  std::ranges::sort(group);
  return group;
}

// Group number `index` of a line that is cut.
RankGroup piece(const RankGroup& line, Cut cut, int64_t index) {
  const int64_t block = index / cut.stride * cut.size * cut.stride;
  const int64_t end = std::min(block + cut.size * cut.stride, size_of(line));
  RankGroup group;
  for (int64_t at = block + index % cut.stride; at < end; at += cut.stride) {
    group.push_back(line[static_cast<size_t>(at)]);
  }
  return group;
}

// The index of the group that holds the member of a line at `position`.
int64_t piece_index(Cut cut, int64_t position) {
  return position / (cut.size * cut.stride) * cut.stride + position % cut.stride;
}

void check_cut(Cut cut, int64_t line_size) {
  TSR_CHECK(cut.size > 0 && cut.stride > 0, "cannot cut a line into groups of ", cut.size,
            " ranks with stride ", cut.stride, "; both must be at least 1");
  TSR_CHECK(cut.stride == 1 || line_size % (cut.size * cut.stride) == 0, "a line of ", line_size,
            " ranks cannot be cut into groups of ", cut.size, " with stride ", cut.stride,
            "; choose sizes whose product divides the line");
}

void check_list(const RankGroup& list, const RankGroup& line) {
  TSR_CHECK(!list.empty(), "the callback chose no rank of the line ", join(line, ","),
            "; it must choose at least 1");
  for (const GlobalRank rank : list) {
    TSR_CHECK(contains(line, rank), "the callback chose rank ", rank, " of the line ",
              join(line, ","), ", which does not have it; it must choose ranks of the line");
    TSR_CHECK(std::ranges::count(list, rank) == 1, "the callback chose rank ", rank,
              " twice in the line ", join(line, ","), "; it must choose each rank at most once");
  }
}

void check_lists(const std::vector<RankGroup>& lists, const GroupRange& lines) {
  TSR_CHECK(static_cast<int64_t>(lists.size()) == lines.size(), lists.size(),
            " lists were given for ", lines.size(), " lines; give one per line");
  for (int64_t i = 0; i < lines.size(); ++i) check_list(lists[static_cast<size_t>(i)], lines[i]);
}

}  // namespace

GroupFamily::GroupFamily(Layout layout, AxisNames axes, Selection selection, Listing listing)
    : layout_(std::move(layout)),
      axes_(std::move(axes)),
      selection_(std::move(selection)),
      listing_(listing),
      line_size_(layout_.group_size(axes_)),
      num_lines_(layout_.size() / line_size_),
      groups_per_line_(1) {
  TSR_ASSERT(listing_ == Listing::kByStride || std::holds_alternative<Whole>(selection_),
             "only whole lines can be listed by the names of their axes");
  if (const Cut* const cut = std::get_if<Cut>(&selection_)) {
    check_cut(*cut, line_size_);
    groups_per_line_ = (line_size_ + cut->size - 1) / cut->size;
  } else if (const Chosen* const chosen = std::get_if<Chosen>(&selection_)) {
    check_lists(chosen->lists, layout_.groups(axes_));
  }
}

int64_t GroupFamily::size() const {
  return std::visit(
      Overloaded{[&](Whole) { return line_size_; },
                 [&](Ends) { return std::min<int64_t>(line_size_, 2); },
                 [](First) { return int64_t{1}; },
                 [&](const Cut& cut) { return std::min(cut.size, line_size_); },
                 [](const Chosen& chosen) {
                   return size_of(std::ranges::max(chosen.lists, {}, &RankGroup::size));
                 }},
      selection_);
}

bool GroupFamily::covers() const {
  return std::holds_alternative<Whole>(selection_) || std::holds_alternative<Cut>(selection_);
}

std::optional<RankGroup> GroupFamily::group_of(GlobalRank rank) const {
  RankGroup line = layout_.group_of(rank, axes_);
  RankGroup group = std::visit(
      Overloaded{[&](Whole) { return std::move(line); }, [&](Ends) { return ends_of(line); },
                 [&](First) { return RankGroup{line.front()}; },
                 [&](const Cut& cut) {
                   const auto position = std::ranges::find(line, rank) - line.begin();
                   return piece(line, cut, piece_index(cut, position));
                 },
                 [&](const Chosen& chosen) {
                   const int64_t at = layout_.group_index(rank, axes_);
                   return sorted(chosen.lists[static_cast<size_t>(at)]);
                 }},
      selection_);
  if (!covers() && !contains(group, rank)) return std::nullopt;
  return group;
}

std::optional<int64_t> GroupFamily::index_of(GlobalRank rank) const {
  if (!covers() && !group_of(rank)) return std::nullopt;
  const int64_t line_index = layout_.group_index(rank, axes_);
  const Cut* const cut = std::get_if<Cut>(&selection_);
  if (cut == nullptr) return line_index;
  const RankGroup line = layout_.group_of(rank, axes_);
  const auto position = std::ranges::find(line, rank) - line.begin();
  return line_index * groups_per_line_ + piece_index(*cut, position);
}

RankGroup GroupFamily::group(int64_t index) const {
  const int64_t line_index = index / groups_per_line_;
  RankGroup line = layout_.groups(axes_)[line_index];
  const auto groups = listed_groups(line_index, std::move(line));
  RankGroup group = groups[static_cast<size_t>(index % groups_per_line_)];
  return std::holds_alternative<Chosen>(selection_) ? sorted(std::move(group)) : group;
}

std::vector<RankGroup> GroupFamily::groups() const {
  std::vector<RankGroup> all;
  all.reserve(static_cast<size_t>(count()));
  int64_t line_index = 0;
  for (RankGroup line : layout_.groups(axes_)) {
    for (RankGroup& group : listed_groups(line_index, std::move(line))) {
      all.push_back(std::move(group));
    }
    ++line_index;
  }
  if (std::holds_alternative<Chosen>(selection_)) {
    for (RankGroup& group : all) std::ranges::sort(group);
  }
  return all;
}

GroupRange GroupFamily::listed_lines() const {
  if (listing_ == Listing::kByStride) return layout_.groups(axes_);
  return layout_.flatten(axes_, "line").groups({"line"});
}

std::vector<RankGroup> GroupFamily::listed_groups(int64_t line_index, RankGroup line) const {
  std::vector<RankGroup> groups;
  std::visit(Overloaded{[&](Whole) { groups.push_back(std::move(line)); },
                        [&](Ends) { groups.push_back(ends_of(line)); },
                        [&](First) { groups.push_back({line.front()}); },
                        [&](const Cut& cut) {
                          for (int64_t i = 0; i < groups_per_line_; ++i) {
                            groups.push_back(piece(line, cut, i));
                          }
                        },
                        [&](const Chosen& chosen) {
                          groups.push_back(chosen.lists[static_cast<size_t>(line_index)]);
                        }},
             selection_);
  return groups;
}

RankGroup GroupFamily::listed(int64_t index) const {
  const int64_t line_index = index / groups_per_line_;
  auto groups = listed_groups(line_index, listed_lines()[line_index]);
  return std::move(groups[static_cast<size_t>(index % groups_per_line_)]);
}

}  // namespace tessera
