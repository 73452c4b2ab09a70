// Translates random layouts and checks the results.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/plan/translate.h"

namespace tessera {
namespace {

int64_t any_size() {
  return *rc::gen::element<int64_t>(1, 1, 2, 3, 4);
}

bool any_flag() {
  return *rc::gen::arbitrary<bool>();
}

std::string any_order() {
  std::vector<std::string> entries{"tp", "cp", "ep", "dp"};
  for (size_t i = entries.size(); i > 1; --i) {
    std::swap(entries[i - 1], entries[*rc::gen::inRange<size_t>(0, i)]);
  }
  return join(entries, "-") + "-pp";
}

struct Sizes {
  int64_t tp = any_size();
  int64_t cp = any_size();
  int64_t dp = any_size() * any_size();
  int64_t pp = any_size();
  int64_t ep = any_flag() ? any_size() : 1;

  int64_t world() const { return tp * cp * dp * pp; }
};

FlagValues megatron_flags(const Sizes& sizes) {
  FlagValues flags{{"--tp", concat(sizes.tp)},
                   {"--cp", concat(sizes.cp)},
                   {"--pp", concat(sizes.pp)},
                   {"--ep", concat(sizes.ep)}};
  if (any_flag()) flags.push_back({"--order", any_order()});
  if (any_flag()) flags.push_back({"--etp", concat(any_size())});
  return flags;
}

FlagValues olmo_flags(const Sizes& sizes) {
  FlagValues flags{{"--cp", concat(sizes.cp)}, {"--pp", concat(sizes.pp)}};
  if (sizes.ep > 1) {
    flags.push_back({"--dp-type", "hsdp"});
    flags.push_back({"--shard-degree", concat(sizes.ep)});
    flags.push_back({"--ep", concat(sizes.ep)});
    return flags;
  }
  flags.push_back({"--tp", concat(sizes.tp)});
  const std::string type = *rc::gen::element<std::string>("fsdp", "hsdp", "ddp");
  flags.push_back({"--dp-type", type});
  if (type == "hsdp") flags.push_back({"--num-replicas", concat(any_size())});
  return flags;
}

FlagValues nemo_flags(const Sizes& sizes) {
  FlagValues flags{{"--tp-size", concat(sizes.tp)}, {"--cp-size", concat(sizes.cp)}};
  if (any_flag() && sizes.pp == 1 && sizes.ep == 1) {
    flags.push_back({"--strategy", "megatron_fsdp"});
    return flags;
  }
  flags.push_back({"--pp-size", concat(sizes.pp)});
  flags.push_back({"--ep-size", concat(sizes.ep)});
  flags.push_back({"--dp-replicate-size", concat(any_size())});
  if (any_flag()) flags.push_back({"--moe-mesh", "today"});
  return flags;
}

FlagValues tessera_flags(const Sizes& sizes) {
  FlagValues flags{{"--tp", concat(sizes.tp)},
                   {"--cp", concat(sizes.cp)},
                   {"--pp", concat(sizes.pp)},
                   {"--ep", concat(sizes.ep)},
                   {"--etp", concat(any_flag() ? any_size() : 1)}};
  const std::string type = *rc::gen::element<std::string>("ddp", "fsdp", "hsdp");
  flags.push_back({"--dp-type", type});
  if (type == "hsdp") flags.push_back({"--dp-replicate", concat(any_size())});
  if (any_flag()) flags.push_back({"--dp", concat(sizes.dp)});
  return flags;
}

struct Sample {
  std::string dialect;
  DialectQuery query;
};

std::string any_dialect() {
  return dialects()[*rc::gen::inRange<size_t>(0, dialects().size())].name;
}

Sample any_sample() {
  const Sizes sizes;
  const std::string dialect = any_dialect();
  const FlagValues flags = dialect == "megatron" ? megatron_flags(sizes)
                           : dialect == "olmo"   ? olmo_flags(sizes)
                           : dialect == "nemo"   ? nemo_flags(sizes)
                                                 : tessera_flags(sizes);
  return {dialect, {.world = sizes.world(), .flags = flags}};
}

// The layout of a sample; skips samples that their dialect refuses.
DialectPlan plan_of(const Sample& sample) {
  try {
    return plan_in(find_dialect(sample.dialect), sample.query);
  } catch (const ConfigError&) {
    RC_DISCARD("sizes that do not fit together");
  }
}

RC_GTEST_PROP(TranslateProperty, WhatIsSaidIsTheSameLayout, ()) {
  const Sample sample = any_sample();
  const DialectPlan layout = plan_of(sample);
  const Dialect& to = find_dialect(any_dialect());
  const Translation answer = translate(layout, to);
  if (!answer.flags) {
    RC_ASSERT(answer.difference.has_value());
    return;
  }
  const DialectPlan said = plan_in(to, {.world = sample.query.world, .flags = *answer.flags});
  std::vector<Role> roles(kLayoutRoles.begin(), kLayoutRoles.end());
  if (layout.has_experts()) roles.push_back(Role::kExpertTensor);
  for (const Role role : roles) {
    for (int64_t rank = 0; rank < sample.query.world; ++rank) {
      const auto group = [&](const DialectPlan& plan) {
        const GroupSpec* const spec = plan.find(role);
        RankGroup ranks = spec == nullptr ? RankGroup{GlobalRank{rank}}
                                          : *spec->groups.group_of(GlobalRank{rank});
        std::ranges::sort(ranks);
        return ranks;
      };
      RC_ASSERT(group(layout) == group(said));
    }
  }
}

RC_GTEST_PROP(TranslateProperty, ThereAndBackIsTheSameLayout, ()) {
  const Sample sample = any_sample();
  const DialectPlan layout = plan_of(sample);
  const Dialect& to = find_dialect(any_dialect());
  const Translation there = translate(layout, to);
  if (!there.flags) return;
  const DialectPlan said = plan_in(to, {.world = sample.query.world, .flags = *there.flags});
  const Translation back = translate(said, find_dialect(sample.dialect));
  RC_ASSERT(back.flags.has_value());
  const DialectPlan again =
      plan_in(find_dialect(sample.dialect), {.world = sample.query.world, .flags = *back.flags});
  RC_ASSERT(!first_difference(layout, again));
}

RC_GTEST_PROP(TranslateProperty, EveryDialectCanSayWhatItSaid, ()) {
  const Sample sample = any_sample();
  const Translation answer = translate(plan_of(sample), find_dialect(sample.dialect));
  RC_ASSERT(answer.flags.has_value());
}

}  // namespace
}  // namespace tessera
