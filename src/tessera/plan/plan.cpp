#include "tessera/plan/plan.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

Plan::Plan(int64_t world, std::vector<NamedLayout> layouts, std::vector<GroupSpec> specs,
           std::vector<VariableRule> variables)
    : world_(world),
      layouts_(std::move(layouts)),
      specs_(std::move(specs)),
      variables_(std::move(variables)) {
  int64_t made = 0;
  for (size_t i = 0; i < specs_.size(); ++i) {
    check_spec(i);
    add_to_steps(i);
  }
  for (Step& step : steps_) {
    step.first_group = made;
    made += step.groups_per_line * family(step.blocks[0]).num_lines();
  }
}

void Plan::check_spec(size_t index) const {
  const GroupSpec& spec = specs_[index];
  TSR_CHECK(find(spec.name) == &spec, "the group ", spec.name,
            " is planned twice; give every kind of group its own name");
  if (spec.made == Made::kAfterAll) return;
  TSR_CHECK(index > 0, "the group ", spec.name, " is the first, so it cannot be created ",
            "together with a previous one");
  const GroupSpec& before = specs_[index - 1];
  TSR_CHECK(spec.groups.num_lines() == before.groups.num_lines(), "the group ", spec.name, " has ",
            spec.groups.num_lines(), " lines, but is to be created line by line with ", before.name,
            ", which has ", before.groups.num_lines());
  TSR_CHECK(spec.made != Made::kAfterGroup || spec.groups == before.groups, "the group ", spec.name,
            " is to be created group by group with ", before.name, ", which has other ranks");
}

void Plan::add_to_steps(size_t spec) {
  const Made made = specs_[spec].made;
  if (made == Made::kAfterAll) steps_.emplace_back();
  Step& step = steps_.back();
  if (made == Made::kAfterGroup) {
    ++step.blocks.back().num_specs;
  } else {
    step.blocks.push_back({.first = spec, .num_specs = 1, .offset = step.groups_per_line});
  }
  step.groups_per_line += specs_[spec].groups.groups_per_line();
}

const Layout& Plan::layout(std::string_view name) const& {
  std::vector<std::string> names;
  for (const NamedLayout& layout : layouts_) {
    if (layout.name == name) return layout.layout;
    names.push_back(layout.name);
  }
  throw ConfigError(concat("the plan has no layout '", name, "'; it has ", join(names, ", "),
                           did_you_mean(name, names)));
}

const GroupSpec* Plan::find(std::string_view name) const& {
  const auto at = std::ranges::find(specs_, name, &GroupSpec::name);
  return at == specs_.end() ? nullptr : &*at;
}

const GroupSpec& Plan::spec(std::string_view name) const& {
  const GroupSpec* const found = find(name);
  if (found != nullptr) return *found;
  std::vector<std::string> names;
  for (const GroupSpec& spec : specs_) names.push_back(spec.name);
  throw ConfigError(concat("the plan has no group '", name, "'; it has ", join(names, ", "),
                           did_you_mean(name, names)));
}

std::optional<RankGroup> Plan::group_of(GlobalRank rank, std::string_view name) const {
  return spec(name).groups.group_of(rank);
}

std::vector<PlannedGroup> Plan::groups_of(GlobalRank rank) const& {
  std::vector<PlannedGroup> groups;
  for (const GroupSpec& spec : specs_) {
    // A twin has the same ranks as the previous spec.
    const bool twin = spec.made == Made::kAfterGroup;
    const bool same = twin && !groups.empty() && groups.back().spec == &spec - 1;
    std::optional<RankGroup> ranks;
    if (same) ranks = groups.back().ranks;
    if (!twin) ranks = spec.groups.group_of(rank);
    if (ranks) groups.push_back({&spec, *std::move(ranks)});
  }
  return groups;
}

std::optional<int64_t> Plan::creation_index(GlobalRank rank, std::string_view name) const {
  const GroupSpec& wanted = spec(name);
  const std::optional<int64_t> index = wanted.groups.index_of(rank);
  if (!index) return std::nullopt;
  const auto position = static_cast<size_t>(&wanted - specs_.data());
  const auto starts_later = [&](size_t at, const Step& step) { return at < step.blocks[0].first; };
  const Step& step =
      *std::prev(std::upper_bound(steps_.begin(), steps_.end(), position, starts_later));
  const auto block = std::ranges::find_if(step.blocks, [&](const Block& b) {
    return b.first <= position && position < b.first + b.num_specs;
  });
  const int64_t per_line = wanted.groups.groups_per_line();
  return step.first_group + *index / per_line * step.groups_per_line + block->offset +
         *index % per_line * static_cast<int64_t>(block->num_specs) +
         static_cast<int64_t>(position - block->first);
}

int64_t Plan::num_groups() const {
  int64_t total = 0;
  for (const GroupSpec& spec : specs_) total += spec.groups.count();
  return total;
}

void Plan::for_each_group(const Visitor& visit) const {
  for (const Step& step : steps_) {
    std::vector<GroupRange> lines;
    for (const Block& block : step.blocks) lines.push_back(family(block).listed_lines());
    for (int64_t line = 0; line < lines[0].size(); ++line) {
      for (size_t b = 0; b < step.blocks.size(); ++b) {
        const Block& block = step.blocks[b];
        for (const RankGroup& group : family(block).listed_groups(line, lines[b][line])) {
          for (size_t i = 0; i < block.num_specs; ++i) visit(specs_[block.first + i], group);
        }
      }
    }
  }
}

std::string Plan::to_string() const {
  std::string text;
  for (const GroupSpec& spec : specs_) {
    text += concat(spec.name, ": ", spec.groups.count(), " of ", spec.groups.size(), ", ",
                   tessera::to_string(spec.backend), ", ", tessera::to_string(spec.lane), "\n");
  }
  return text;
}

}  // namespace tessera
