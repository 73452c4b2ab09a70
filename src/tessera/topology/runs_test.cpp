#include "tessera/topology/runs.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;
using Boxes = std::vector<Box>;
using Spans = std::vector<Span>;

Spans runs_of(const Shape& global_shape, const Boxes& pieces) {
  Spans runs;
  for_each_run(global_shape, pieces, [&](Span run) { runs.push_back(run); });
  return runs;
}

TEST(Runs, RowsThatFollowOneAnotherAreOneRun) {
  EXPECT_EQ(runs_of({4, 3, 5}, {{{2, 3, 5}, {1, 0, 0}}}), (Spans{{15, 45}}));
  EXPECT_EQ(runs_of({4, 3, 5}, {{{2, 2, 5}, {1, 1, 0}}}), (Spans{{20, 30}, {35, 45}}));
  EXPECT_EQ(runs_of({2, 6}, {{{2, 2}, {0, 3}}}), (Spans{{3, 5}, {9, 11}}));
}

TEST(Runs, AScalarIsOneElementAndAnEmptyShardHasNone) {
  EXPECT_EQ(runs_of({}, {{{}, {}}}), (Spans{{0, 1}}));
  EXPECT_EQ(runs_of({4}, {{{0}, {4}}}), Spans{});
  EXPECT_EQ(runs_of({0, 3}, {{{0, 3}, {0, 0}}}), Spans{});
  EXPECT_EQ(runs_of({4}, {}), Spans{});
}

TEST(Runs, PiecesOfAStridedShardInterleaveInTheLocalOrder) {
  const Boxes columns{{{2, 2}, {0, 0}}, {{2, 2}, {0, 4}}};
  EXPECT_EQ(runs_of({2, 8}, columns), (Spans{{0, 2}, {4, 6}, {8, 10}, {12, 14}}));
}

TEST(RunsErrors, NameTheValueTheRuleAndTheFix) {
  EXPECT_EQ(
      testkit::message_of<ConfigError>([] { runs_of({4, 3}, {{{2, 3}, {3, 0}}}); }),
      "box (2,3)@(3,0) is not inside a tensor of shape (4,3); give non-empty boxes inside it");
  EXPECT_EQ(
      testkit::message_of<ConfigError>(
          [] { runs_of({4, 4}, {{{1, 1}, {0, 0}}, {{1, 1}, {2, 2}}}); }),
      "boxes (1,1)@(0,0) (1,1)@(2,2) do not form a grid; give them as local_boxes returns them");
  EXPECT_THROW(runs_of({1, 1}, {{{1}, {0}}}), ConfigError);
  EXPECT_THROW(runs_of({INT64_MAX, 2}, {{{1, 1}, {0, 0}}}), ConfigError);
}

}  // namespace
}  // namespace tessera
