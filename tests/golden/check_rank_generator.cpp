// rank_generator: Megatron-Core's RankGenerator, masked, hierarchical and hybrid groups.
#include <algorithm>
#include <set>

#include "tessera/base/text.h"
#include "tessera/plan/plan.h"
#include "tessera/topology/rank_generator.h"
#include "tests/golden/golden.h"
#include "tests/golden/plan_json.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

RankGroup ranks_of(const Json& list) {
  return to_ranks(list.get<std::vector<int64_t>>());
}

Json lists_json(const std::vector<RankGroup>& groups) {
  Json list = Json::array();
  for (const RankGroup& group : groups) list.push_back(to_json(group));
  return list;
}

// The fields of a case that state its answer, or a refusal where the peer failed.
Json expected_of(const Json& test_case, const std::vector<std::string>& fields) {
  if (test_case.contains("error")) return refusal();
  Json expected = Json::object();
  for (const std::string& field : fields) expected[field] = test_case.at(field);
  return expected;
}

const Rule* masked_rule(const Json& test_case) {
  const Json& sizes = test_case.at("parallel_size");
  if (sizes.size() != test_case.at("mask").size()) return &rules::kMaskDoesNotFit;
  if (const Rule* const rule = rules::of_size(sizes)) return rule;
  int64_t left = test_case.at("world_size");
  for (const int64_t size : sizes) left = left % size == 0 ? left / size : 0;
  return left == 1 ? nullptr : &rules::kWorldIsNotTheProduct;
}

Outcome check_masked(const Json& test_case) {
  const auto answer = [&] {
    return Json{{"groups", lists_json(generate_masked_orthogonal_rank_groups(
                               test_case.at("world_size"),
                               test_case.at("parallel_size").get<std::vector<int64_t>>(),
                               test_case.at("mask").get<std::vector<bool>>()))}};
  };
  return judge(expected_of(test_case, {"groups"}), answer, masked_rule(test_case));
}

// Sizes and the offset may be left out.
int64_t size_of(const Json& test_case, const char* name) {
  return value_or(test_case, name, 1);
}
int64_t offset_of(const Json& test_case) {
  return value_or(test_case, "rank_offset", 0);
}

const Rule* generator_rule(const Json& test_case) {
  for (const char* size : {"tp", "ep", "dp", "pp", "cp"}) {
    if (const Rule* const rule = rules::of_size(size_of(test_case, size))) return rule;
  }
  if (offset_of(test_case) < 0) return &rules::kNegativeOffset;
  return rules::of_order(test_case.at("order"));
}

struct Generated {
  RankGenerator generator;
  std::vector<RankGroup> groups;
  std::vector<bool> mask;
};

Generated generate(const Json& c) {
  RankGenerator generator(size_of(c, "tp"), size_of(c, "ep"), size_of(c, "dp"), size_of(c, "pp"),
                          size_of(c, "cp"), c.at("order").get<std::string>(), offset_of(c));
  const auto token = c.at("token").get<std::string>();
  auto groups = generator.get_ranks(token);
  auto mask = RankGenerator::get_mask(generator.order(), token);
  return {std::move(generator), std::move(groups), std::move(mask)};
}

Json describe(const Generated& generated) {
  return {{"normalized_order", generated.generator.order()},
          {"ordered_size", generated.generator.ordered_size()},
          {"world_size", generated.generator.world_size()},
          {"mask", generated.mask}};
}

// The peer dropped the keyword; here the compiler refuses it.
bool uses_removed_keyword(const Json& test_case) {
  return value_or(test_case, "independent_ep", false);
}

Outcome check_generator(const Json& test_case) {
  if (uses_removed_keyword(test_case)) return {expected_of(test_case, {}), refusal()};
  const auto answer = [&] {
    const Generated generated = generate(test_case);
    Json got = describe(generated);
    got["groups"] = lists_json(generated.groups);
    return got;
  };
  return judge(
      expected_of(test_case, {"normalized_order", "ordered_size", "world_size", "mask", "groups"}),
      answer, generator_rule(test_case));
}

// "0,1;2,3": ranks joined by commas, groups by semicolons.
std::string text_of_groups(const std::vector<RankGroup>& groups) {
  std::vector<std::string> texts;
  texts.reserve(groups.size());
  for (const RankGroup& group : groups) texts.push_back(join(group, ","));
  return join(texts, ";");
}

constexpr size_t kShownMembers = 4;  // The table shows as many of the first and of the last group.

Outcome check_generator_hash(const Json& test_case) {
  if (uses_removed_keyword(test_case)) return {expected_of(test_case, {}), refusal()};
  const auto answer = [&] {
    const Generated generated = generate(test_case);
    const RankGroup& first = generated.groups.front();
    const RankGroup& last = generated.groups.back();
    const auto shown = static_cast<std::ptrdiff_t>(std::min(first.size(), kShownMembers));
    Json got = describe(generated);
    got["num_groups"] = generated.groups.size();
    got["group_size"] = first.size();
    got["first"] = to_json(RankGroup(first.begin(), first.begin() + shown));
    got["last"] = to_json(RankGroup(last.end() - shown, last.end()));
    got["fnv1a64"] = fnv1a64(text_of_groups(generated.groups));
    return got;
  };
  return judge(expected_of(test_case, {"normalized_order", "ordered_size", "world_size", "mask",
                                       "num_groups", "group_size", "first", "last", "fnv1a64"}),
               answer, generator_rule(test_case));
}

// The peer's options are opaque words here: they travel as a name of a network.
NcclOptions options_named(const Json& name) {
  return name.is_null() ? NcclOptions{} : NcclOptions{.net_name = name.get<std::string>()};
}

Json created(const Plan& plan) {
  Json list = Json::array();
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& ranks) {
    Json entry = to_json(spec, ranks);
    if (spec.options.net_name) entry["opts"] = *spec.options.net_name;
    list.push_back(std::move(entry));
  });
  return list;
}

// A null value in the list of created groups says that the peer passed nothing.
Json without_nulls(Json created) {
  for (Json& entry : created) {
    for (auto it = entry.begin(); it != entry.end();) {
      it = it->is_null() ? entry.erase(it) : std::next(it);
    }
  }
  return created;
}

// Per level, where in the list of created groups the one of `rank` stands.
Json own_groups(const Plan& plan, GlobalRank rank, GroupBackend backend) {
  Json indices = Json::array();
  for (const GroupSpec& spec : plan.specs()) {
    if (spec.backend != backend || !spec.groups.layout().contains(rank)) continue;
    indices.push_back(*plan.creation_index(rank, spec.name));
  }
  return indices;
}

// One object stands for every level; a list has one entry per level, null for none.
std::optional<std::vector<NcclOptions>> options_of(const Json& options, size_t num_levels) {
  if (options.is_null()) return std::nullopt;
  if (!options.is_array()) return std::vector(num_levels, options_named(options));
  std::vector<NcclOptions> list;
  for (const Json& entry : options) list.push_back(options_named(entry));
  return list;
}

// The peer's text for a name that was not given.
std::string text_of(const Json& name) {
  return name.is_null() ? "None" : name.get<std::string>();
}

const Rule* hierarchy_rule(const Json& test_case) {
  const Json options = value_or(test_case, "pg_options", nullptr);
  const Json& sizes = test_case.at("hierarchical_group_sizes");
  if (!sizes.empty() && options.is_array() && options.size() > sizes.size()) {
    return &rules::kTooManyOptions;
  }
  if (const Rule* const rule = rules::of_size(sizes)) return rule;
  return rules::of_rank_list(test_case.at("ranks"), test_case.at("world"));
}

// What the peer created and returned, without the nulls that say that it passed nothing.
Json expected_groups(const Json& test_case, const std::vector<std::string>& fields) {
  Json expected = expected_of(test_case, fields);
  if (expected.contains("created")) expected["created"] = without_nulls(expected["created"]);
  return expected;
}

Outcome check_hierarchical(const Json& test_case) {
  const auto answer = [&]() -> Json {
    const auto sizes = test_case.at("hierarchical_group_sizes").get<std::vector<int64_t>>();
    const bool gloo = value_or(test_case, "create_gloo_process_groups", false);
    const GlobalRank rank{test_case.at("rank")};
    const int64_t world = test_case.at("world");
    const Layout line = line_of(ranks_of(test_case.at("ranks")), world);
    const Plan plan(
        world, {},
        hierarchical_specs(
            line, {"ranks"}, sizes,
            {.description = text_of(value_or(test_case, "group_desc", nullptr)),
             .nccl = options_of(value_or(test_case, "pg_options", nullptr), sizes.size()),
             .gloo_twins = gloo}));
    const Json twins = gloo || !line.contains(rank)
                           ? own_groups(plan, rank, GroupBackend::kGloo)
                           : Json(std::vector<Json>(sizes.size(), nullptr));
    return {{"created", created(plan)},
            {"returned", own_groups(plan, rank, GroupBackend::kDefault)},
            {"returned_gloo", twins}};
  };
  return judge(expected_groups(test_case, {"created", "returned", "returned_gloo"}), answer,
               hierarchy_rule(test_case));
}

Outcome check_hybrid(const Json& test_case) {
  const auto answer = [&]() -> Json {
    const GlobalRank rank{test_case.at("rank")};
    const int64_t world = test_case.at("world");
    const Layout line = line_of(ranks_of(test_case.at("ranks")), world);
    const NcclOptions options = options_named(value_or(test_case, "pg_options", nullptr));
    const Plan plan(world, {}, hybrid_specs(line, {"ranks"}, options));
    Json returned = Json::object();
    for (const GroupSpec& spec : plan.specs()) {
      if (!line.contains(rank)) continue;
      const std::string size = spec.name.substr(spec.name.rfind('_') + 1);
      returned[size] = *plan.creation_index(rank, spec.name);
    }
    return {{"created", created(plan)}, {"returned", returned}};
  };
  return judge(expected_groups(test_case, {"created", "returned"}), answer,
               rules::of_rank_list(test_case.at("ranks"), test_case.at("world")));
}

}  // namespace

Table rank_generator_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const Json& test_case : file.value("cases", Json::array())) {
      list.push_back({test_case.value("kind", "(no kind)"), test_case});
    }
    return list;
  };
  return {"rank_generator",
          {{"masked", check_masked},
           {"rank_generator", check_generator},
           {"rank_generator_hash", check_generator_hash},
           {"hierarchical", check_hierarchical},
           {"hybrid", check_hybrid}},
          cases};
}

}  // namespace tessera::golden
