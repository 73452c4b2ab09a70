#include "tessera/plan/plan.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

Layout grid() {
  return Layout::row_major({{"dp", 2}, {"tp", 2}});
}

GroupSpec spec(std::string name, AxisNames axes, Made made, Selection selection = Whole{}) {
  return {.name = std::move(name),
          .label = "",
          .groups = GroupFamily(grid(), std::move(axes), std::move(selection)),
          .made = made};
}

Plan sample() {
  return Plan(
      4, {{"grid", grid()}},
      {spec("TP", {"tp"}, Made::kAfterAll), spec("TP_TWIN", {"tp"}, Made::kAfterGroup),
       spec("TP_FIRST", {"tp"}, Made::kAfterLine, First{}), spec("DP", {"dp"}, Made::kAfterAll),
       spec("DP_PARTS", {"dp"}, Made::kAfterLine, Cut{1}),
       spec("DP_PARTS_TWIN", {"dp"}, Made::kAfterGroup, Cut{1})});
}

TEST(Plan, MakesGroupsByLineAndByGroup) {
  std::string order;
  const Plan plan = sample();
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& ranks) {
    order += concat(spec.name, "{", join(ranks, ","), "} ");
  });
  EXPECT_EQ(order,
            "TP{0,1} TP_TWIN{0,1} TP_FIRST{0} TP{2,3} TP_TWIN{2,3} TP_FIRST{2} "
            "DP{0,2} DP_PARTS{0} DP_PARTS_TWIN{0} DP_PARTS{2} DP_PARTS_TWIN{2} "
            "DP{1,3} DP_PARTS{1} DP_PARTS_TWIN{1} DP_PARTS{3} DP_PARTS_TWIN{3} ");
  EXPECT_EQ(plan.num_groups(), 16);
}

TEST(Plan, GroupsOfOneRankComeInTheSameOrder) {
  const Plan plan = sample();
  std::string order;
  for (const auto& [spec, ranks] : plan.groups_of(GlobalRank{3})) {
    order += concat(spec->name, "{", join(ranks, ","), "} ");
  }
  EXPECT_EQ(order, "TP{2,3} TP_TWIN{2,3} DP{1,3} DP_PARTS{3} DP_PARTS_TWIN{3} ");
  EXPECT_EQ(plan.group_of(GlobalRank{3}, "TP_FIRST"), std::nullopt);
  EXPECT_EQ(plan.creation_index(GlobalRank{3}, "TP_TWIN"), 4);
  EXPECT_EQ(plan.creation_index(GlobalRank{3}, "DP_PARTS_TWIN"), 15);
  EXPECT_EQ(plan.creation_index(GlobalRank{3}, "TP_FIRST"), std::nullopt);
}

TEST(Plan, KnowsItsNames) {
  const Plan plan = sample();
  EXPECT_EQ(plan.layout("grid"), grid());
  EXPECT_EQ(plan.find("PP"), nullptr);
  EXPECT_NE(message_of<ConfigError>([&] { plan.spec("TP_TWINS"); }).find("did you mean 'TP_TWIN'?"),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([&] { plan.layout("gird"); }).find("did you mean 'grid'?"),
            std::string::npos);
  EXPECT_EQ(plan.to_string().substr(0, 28), "TP: 2 of 2, default, compute");
}

TEST(PlanErrors, SpecsThatDoNotFitTogether) {
  const auto plan = [](std::vector<GroupSpec> specs) { Plan(4, {}, std::move(specs)); };
  const GroupSpec first = spec("TP", {"tp"}, Made::kAfterAll);
  EXPECT_THROW(plan({first, first}), ConfigError) << "one name twice";
  EXPECT_THROW(plan({spec("TP", {"tp"}, Made::kAfterLine)}), ConfigError) << "after nothing";
  EXPECT_THROW(plan({first, spec("ALL", {"dp", "tp"}, Made::kAfterLine)}), ConfigError);
  EXPECT_THROW(plan({first, spec("DP", {"dp"}, Made::kAfterGroup)}), ConfigError) << "no twin";
}

TEST(VariableRules, RefuseAValueAlone) {
  const std::vector<VariableRule> rules{
      {"A", VariableRule::Action::kSet, "1"},
      {"B", VariableRule::Action::kRefuse, "1", "is too few; raise it"}};
  const auto with_b = [](const char* value) {
    return [value](const std::string& name) {
      return name == "B" && value ? std::optional<std::string>(value) : std::nullopt;
    };
  };
  EXPECT_NO_THROW(check_variables(rules, with_b(nullptr)));
  EXPECT_NO_THROW(check_variables(rules, with_b("2")));
  EXPECT_EQ(message_of<ConfigError>([&] { check_variables(rules, with_b("1")); }),
            "B=1 is too few; raise it");
}

}  // namespace
}  // namespace tessera
