#include "tessera/topology/rank_generator.h"

#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera {
namespace {

// The sequence in which entries missing in an order string are appended.
constexpr std::array<const char*, 5> kEntries{"tp", "pp", "dp", "ep", "cp"};

struct Sizes {
  int64_t tp, pp, dp, ep, cp;  // In the order of kEntries.

  int64_t of(std::string_view entry) const {
    const std::array<int64_t, 5> sizes{tp, pp, dp, ep, cp};
    return sizes[static_cast<size_t>(std::ranges::find(kEntries, entry) - kEntries.begin())];
  }
};

bool contains(const auto& range, const auto& value) {
  return std::ranges::find(range, value) != std::ranges::end(range);
}

void check_entry(std::string_view entry, std::string_view order) {
  TSR_CHECK(contains(kEntries, entry), "order '", order, "' has the unknown entry '", entry,
            "'; join tp, cp, ep, dp and pp by single hyphens, fastest first");
}

// The axes of an order string, completed by the missing ones.
std::vector<AxisSize> ordered_axes(std::string_view order, const Sizes& sizes) {
  const std::string lower = to_lower(order);
  std::vector<AxisSize> axes;
  for (const std::string_view entry : split(lower, '-')) {
    check_entry(entry, order);
    for (const AxisSize& axis : axes) {
      TSR_CHECK(axis.name != entry, "order '", order, "' has the entry '", entry,
                "' twice; give every entry once");
    }
    axes.push_back({std::string(entry), sizes.of(entry)});
  }
  for (const char* entry : kEntries) {
    const bool listed = contains(split(lower, '-'), std::string_view(entry));
    TSR_CHECK(listed || sizes.of(entry) == 1, entry, " has size ", sizes.of(entry),
              " but is not in order '", order, "'; add '", entry,
              "' to the order or set its size to 1");
    if (!listed) axes.push_back({entry, 1});
  }
  return axes;
}

Layout make_layout(std::string_view order, const Sizes& sizes, int64_t rank_offset) {
  for (const char* entry : kEntries) {
    TSR_CHECK(sizes.of(entry) > 0, "the size of ", entry, " is ", sizes.of(entry),
              ", but must be at least 1");
  }
  TSR_CHECK(sizes.ep == 1 || sizes.cp == 1, "ep=", sizes.ep, " and cp=", sizes.cp,
            " are both above 1; a rank generator holds either the decoder's layout (ep=1) or the "
            "experts' (cp=1)");
  TSR_CHECK(rank_offset >= 0, "rank offset ", rank_offset, " is negative, but must be at least 0");
  return Layout::first_fastest(ordered_axes(order, sizes), GlobalRank{rank_offset});
}

std::vector<RankGroup> collect(const GroupRange& groups) {
  return {groups.begin(), groups.end()};
}

}  // namespace

RankGenerator::RankGenerator(int64_t tp, int64_t ep, int64_t dp, int64_t pp, int64_t cp,
                             std::string_view order, int64_t rank_offset)
    : layout_(make_layout(order, {.tp = tp, .pp = pp, .dp = dp, .ep = ep, .cp = cp}, rank_offset)) {
  order_ = join(layout_.axis_names(), "-");
}

std::vector<bool> RankGenerator::get_mask(std::string_view order, std::string_view token) {
  const std::vector<std::string_view> entries = split(order, '-');
  const std::vector<std::string_view> named = split(token, '-');
  for (const std::string_view name : named) {
    TSR_CHECK(contains(entries, name), "token '", token, "' names '", name,
              "', which is not in order '", order, "'; join entries of the order by hyphens");
  }
  std::vector<bool> mask;
  for (const std::string_view entry : entries) mask.push_back(contains(named, entry));
  return mask;
}

std::vector<RankGroup> RankGenerator::get_ranks(std::string_view token) const {
  return collect(layout_.groups(axes_of_token(layout_, token)));
}

std::vector<int64_t> RankGenerator::ordered_size() const {
  std::vector<int64_t> sizes;
  for (const Axis& axis : layout_.axes()) sizes.push_back(axis.size());
  return sizes;
}

AxisNames axes_of_token(const Layout& layout, std::string_view token) {
  const AxisNames names = layout.axis_names();
  const std::vector<bool> mask = RankGenerator::get_mask(join(names, "-"), token);
  AxisNames chosen;
  for (size_t i = 0; i < names.size(); ++i) {
    if (mask[i]) chosen.push_back(names[i]);
  }
  return chosen;
}

std::vector<RankGroup> generate_masked_orthogonal_rank_groups(
    int64_t world_size, std::span<const int64_t> parallel_size, const std::vector<bool>& mask) {
  TSR_CHECK(mask.size() == parallel_size.size(), "a mask of ", mask.size(),
            " entries was given for ", parallel_size.size(), " sizes; give one entry per size");
  std::vector<AxisSize> axes;
  AxisNames chosen;
  for (size_t i = 0; i < parallel_size.size(); ++i) {
    axes.push_back({concat("size ", i), parallel_size[i]});
    if (mask[i]) chosen.push_back(axes.back().name);
  }
  const Layout layout = Layout::first_fastest(axes);
  TSR_CHECK(layout.size() == world_size, "world size ", world_size,
            " is not the product of the sizes ", join(parallel_size, "·"), " = ", layout.size());
  return collect(layout.groups(chosen));
}

}  // namespace tessera
