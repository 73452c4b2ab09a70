#include "tessera/format/checkpoint/save_plan.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/format/checkpoint/shard_files.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using Ranks = std::vector<std::vector<HeldTensor>>;

HeldTensor held(const std::string& name, std::vector<int64_t> shape, std::vector<Box> boxes) {
  return {name, DType::kF32, std::move(shape), std::move(boxes)};
}

HeldTensor whole(const std::string& name, const std::vector<int64_t>& shape) {
  return held(name, shape, {{shape, std::vector<int64_t>(shape.size(), 0)}});
}

TEST(SavePlan, WritesEachElementOnceAndSpreadsTheBytes) {
  Ranks ranks(4);
  for (auto& rank : ranks) {
    rank = {whole("big", {1001, 100}), whole("wide", {1, 100'000}), whole("norm", {64}),
            whole("other", {64}),      whole("third", {64}),        whole("fourth", {64})};
  }
  const auto plan = plan_save(ranks);
  int64_t total = 0;
  for (const auto& pieces : plan) {
    const int64_t bytes = bytes_of_pieces(pieces);
    EXPECT_NEAR(static_cast<double>(bytes), (100'100 + 100'000 + 4 * 64), 500);
    total += bytes;
  }
  EXPECT_EQ(total, 4 * (100'100 + 100'000 + 4 * 64));
}

TEST(SavePlan, ABoxOfOneRankIsWrittenByIt) {
  const auto plan =
      plan_save(Ranks{{held("w", {4}, {{{1}, {0}}})}, {held("w", {4}, {{{3}, {1}}})}});
  ASSERT_EQ(plan[0].size(), 1U);
  EXPECT_EQ(plan[0][0].box, (Box{{1}, {0}}));
  ASSERT_EQ(plan[1].size(), 1U);
  EXPECT_EQ(plan[1][0].box, (Box{{3}, {1}}));
}

TEST(SavePlan, RefusesWhatDoesNotFitTogether) {
  const auto refusal = [](const Ranks& ranks) {
    return message_of<ConfigError>([&] { plan_save(ranks); });
  };
  EXPECT_EQ(refusal({{whole("w", {4})}, {whole("w", {5})}}),
            "'w' is F32 [5] on rank 1 and F32 [4] on another; all ranks must give the full shape "
            "and the same dtype");
  EXPECT_EQ(refusal({{held("w", {4}, {{{2}, {0}}})}}),
            "the ranks' parts of 'w' do not make up the tensor: 2 of 4 elements are missing");
  EXPECT_NE(
      refusal({{held("w", {4}, {{{3}, {0}}})}, {held("w", {4}, {{{3}, {1}}})}}).find("overlap"),
      std::string::npos);
}

}  // namespace
}  // namespace tessera
