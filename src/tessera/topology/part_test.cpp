#include "tessera/topology/part.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/topology/runs.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using Spans = std::vector<Span>;

TEST(Part, OfAllElements) {
  const Part whole({3, 4});
  EXPECT_TRUE(whole.is_whole());
  EXPECT_EQ(whole.numel(), 12);
  EXPECT_EQ(whole.spans(), (Spans{{0, 12}}));
}

TEST(Part, Rows) {
  const Part rows = Part({5, 4}).cut(0, 2, 1);
  EXPECT_FALSE(rows.is_whole());
  EXPECT_EQ(rows.box(), (Box{.shape = {2, 4}, .offset = {3, 0}}));
  EXPECT_EQ(rows.spans(), (Spans{{12, 20}}));
}

TEST(Part, Columns) {
  const Part columns = Part({2, 6}).cut(1, 3, 1);
  EXPECT_EQ(columns.spans(), (Spans{{2, 4}, {8, 10}}));
}

TEST(Part, ARunOfColumns) {
  const Part run = Part({2, 6}).cut(1, 3, 1).run({1, 4});
  EXPECT_EQ(run.numel(), 3);
  EXPECT_EQ(run.spans(), (Spans{{3, 4}, {8, 10}}));
  EXPECT_EQ(run.run({1, 2}).spans(), (Spans{{8, 9}}));
}

TEST(Part, Empty) {
  EXPECT_EQ(Part({2, 3}).run({4, 4}).spans(), Spans{});
  EXPECT_EQ(Part({2}).cut(0, 4, 3).spans(), Spans{});
  EXPECT_TRUE(Part({0, 3}).is_whole());
}

TEST(Part, AScalar) {
  EXPECT_EQ(Part({}).spans(), (Spans{{0, 1}}));
}

// The indices of all elements of spans, or of boxes one after the other.
std::vector<int64_t> indices_of(const Spans& spans) {
  std::vector<int64_t> all;
  for (const Span& span : spans) {
    for (int64_t i = span.begin; i < span.end; ++i) all.push_back(i);
  }
  return all;
}

std::vector<int64_t> indices_of(const std::vector<int64_t>& shape, const std::vector<Box>& boxes) {
  std::vector<int64_t> all;
  for (const Box& box : boxes) {
    for_each_run(shape, std::span(&box, 1), [&](Span run) {
      for (int64_t i = run.begin; i < run.end; ++i) all.push_back(i);
    });
  }
  return all;
}

TEST(Part, BoxesHaveTheElementsOfEveryRun) {
  for (const Part& whole : {Part({12}), Part({3, 4}), Part({4, 3, 2}), Part({2, 1, 3, 2}),
                            Part({4, 6}).cut(1, 2, 1), Part({4, 4, 3}).cut(1, 2, 0)}) {
    const size_t most = 2 * whole.shape().size() - 1;
    for (int64_t begin = 0; begin <= whole.numel(); ++begin) {
      for (int64_t end = begin; end <= whole.numel(); ++end) {
        const Part run = whole.run({begin, end});
        EXPECT_EQ(indices_of(run.shape(), run.boxes()), indices_of(run.spans()));
        EXPECT_LE(run.boxes().size(), most);
      }
    }
  }
  EXPECT_EQ(Part({}).boxes().size(), 1U);
}

TEST(Part, RefusesWhatItDoesNotHave) {
  EXPECT_EQ(message_of<ConfigError>([] { (void)Part({2, 3}).run({4, 7}); }),
            "elements 4 to 7 of a part that has 6");
  EXPECT_EQ(message_of<ConfigError>([] { (void)Part({2, 3}).cut(2, 2, 0); }),
            "dimension 2 cannot be cut: the tensor has 2");
  EXPECT_EQ(message_of<StateError>([] { (void)Part({2, 3}).run({1, 2}).cut(0, 2, 0); }),
            "a run of elements has no dimensions to cut");
}

}  // namespace
}  // namespace tessera
