#include "tessera/tensor/redistribute_plan.h"

#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;
using Texts = std::vector<std::string>;

const Placement R = Replicate{};
const Placement P = Partial{};
Placement S(int64_t dim) {
  return Shard{dim};
}
Placement SS(int64_t dim, int64_t factor) {
  return StridedShard{dim, factor};
}

Texts plan(const Shape& shape, const Shape& mesh, const Placements& from, const Placements& to) {
  Texts texts;
  for (const RedistributeStep& step : redistribute_plan(shape, mesh, from, to)) {
    texts.push_back(concat(step));
  }
  return texts;
}

TEST(RedistributePlan, OneAxisTakesOneStep) {
  EXPECT_EQ(plan({8, 8}, {4}, {R}, {S(1)}), Texts{"axis 0: cut dim 1"});
  EXPECT_EQ(plan({8, 8}, {4}, {S(1)}, {R}), Texts{"axis 0: all-gather dim 1"});
  EXPECT_EQ(plan({8, 8}, {4}, {S(0)}, {S(1)}), Texts{"axis 0: all-to-all dim 0 to dim 1"});
  EXPECT_EQ(plan({8, 8}, {4}, {P}, {R}), Texts{"axis 0: all-reduce"});
  EXPECT_EQ(plan({8, 8}, {4}, {P}, {S(0)}), Texts{"axis 0: reduce-scatter dim 0"});
}

TEST(RedistributePlan, NothingToDoTakesNone) {
  for (const Placement& same : {R, P, S(0), SS(0, 3)}) {
    EXPECT_EQ(plan({8, 8}, {4}, {same}, {same}), Texts{});
  }
  EXPECT_EQ(plan({8, 8}, {1}, {S(0)}, {S(1)}), Texts{}) << "an axis of one rank";
  EXPECT_EQ(plan({8, 8}, {4}, {SS(0, 1)}, {S(0)}), Texts{}) << "the same, written otherwise";
}

TEST(RedistributePlan, CutsAreUndoneFromTheInside) {
  EXPECT_EQ(plan({8}, {2, 2}, {S(0), S(0)}, {R, R}),
            (Texts{"axis 1: all-gather dim 0", "axis 0: all-gather dim 0"}));
  EXPECT_EQ(plan({8}, {2, 2}, {S(0), S(0)}, {S(0), R}), Texts{"axis 1: all-gather dim 0"});
  EXPECT_EQ(plan({8}, {2, 2}, {S(0), S(0)}, {R, S(0)}),
            (Texts{"axis 1: all-gather dim 0", "axis 0: all-gather dim 0", "axis 1: cut dim 0"}));
  EXPECT_EQ(plan({8}, {2, 2}, {R, R}, {S(0), S(0)}),
            (Texts{"axis 0: cut dim 0", "axis 1: cut dim 0"}));
}

TEST(RedistributePlan, CheapMovesComeFirst) {
  EXPECT_EQ(plan({8, 8}, {2, 2}, {S(0), R}, {R, S(1)}),
            (Texts{"axis 1: cut dim 1", "axis 0: all-gather dim 0"}))
      << "half of it is gathered";
  EXPECT_EQ(plan({8}, {2, 2}, {P, S(0)}, {R, R}),
            (Texts{"axis 0: all-reduce", "axis 1: all-gather dim 0"}))
      << "half of it is summed";
  EXPECT_EQ(plan({8, 8}, {2, 2}, {P, P}, {S(0), S(0)}),
            (Texts{"axis 0: reduce-scatter dim 0", "axis 1: reduce-scatter dim 0"}));
  EXPECT_EQ(
      plan({4, 4}, {2, 2}, {S(0), S(1)}, {S(1), S(0)}),
      (Texts{"axis 1: all-gather dim 1", "axis 0: all-to-all dim 0 to dim 1", "axis 1: cut dim 0"}))
      << "each axis must wait for the other";
}

// FSDP over tensor parallelism: the outer axis was sharded last.
TEST(RedistributePlan, StridedShardsAreCutsInAnotherOrder) {
  EXPECT_EQ(plan({8}, {2, 4}, {SS(0, 4), S(0)}, {R, S(0)}), Texts{"axis 0: all-gather dim 0"});
  EXPECT_EQ(plan({7}, {2, 4}, {SS(0, 4), S(0)}, {R, S(0)}), Texts{"axis 0: all-gather dim 0"})
      << "uneven, too";
  EXPECT_EQ(plan({8}, {2, 2}, {R, R}, {SS(0, 2), S(0)}),
            (Texts{"axis 1: cut dim 0", "axis 0: cut dim 0"}));
  EXPECT_EQ(plan({8}, {2, 2}, {SS(0, 2), S(0)}, {S(0), S(0)}),
            (Texts{"axis 0: all-gather dim 0", "axis 1: all-gather dim 0", "axis 0: cut dim 0",
                   "axis 1: cut dim 0"}));
  EXPECT_EQ(plan({24}, {2, 3, 2}, {SS(0, 6), SS(0, 2), S(0)}, {R, R, S(0)}),
            (Texts{"axis 0: all-gather dim 0", "axis 1: all-gather dim 0"}));
}

// A factor that does not match the inner axes is a separate cut, made in its listed order.
TEST(RedistributePlan, OtherStridedShardsStayWhereTheyStand) {
  EXPECT_EQ(plan({12}, {2, 2}, {SS(0, 3), S(0)}, {R, S(0)}),
            (Texts{"axis 1: all-gather dim 0", "axis 0: all-gather dim 0", "axis 1: cut dim 0"}));
  const auto steps = redistribute_plan(Shape{12}, Shape{2}, Placements{SS(0, 3)}, Placements{R});
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].from_factor, 3);
}

TEST(RedistributePlan, RefusesToBecomePartial) {
  const auto message = testkit::message_of<ConfigError>([] { plan({8}, {4}, {S(0)}, {P}); });
  EXPECT_NE(message.find("axis 0 cannot go from S(0) to P(sum)"), std::string::npos) << message;
  EXPECT_THROW(plan({8}, {4}, {P}, {Partial{ReduceOp::kMax}}), ConfigError);
}

TEST(Placements, AreChecked) {
  const auto refusal = [](const Placements& placements) {
    return testkit::message_of<ConfigError>([&] { (void)checked_placements(placements, 2, 2); });
  };
  EXPECT_EQ(checked_placements(Placements{S(-1), SS(-2, 2)}, 2, 2), (Placements{S(1), SS(0, 2)}));
  EXPECT_EQ(refusal({R}), "placements (R): got 1 for a mesh of 2 axes; pass one per axis");
  EXPECT_EQ(
      refusal({R, S(2)}),
      "placement S(2) names dimension 2 of a tensor of 2 dimensions; choose one from -2 to 1");
  EXPECT_EQ(refusal({P, Partial{ReduceOp::kMax}}),
            "placements (P(sum), P(max)) mix the reductions sum and max; reduce one of them first");
  EXPECT_EQ(refusal({SS(0, 0), R}),
            "placement SS(0,0) has split factor 0; split factors must be ≥ 1");
  (void)checked_placements(Placements{P, Partial{ReduceOp::kAvg}}, 0, 2);
  EXPECT_EQ(gradient_placements(Placements{P, S(1)}), (Placements{R, S(1)}));
}

}  // namespace
}  // namespace tessera
