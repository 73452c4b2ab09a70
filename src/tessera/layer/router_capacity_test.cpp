// Which tokens full experts keep, on cases computed by hand.
#include "tessera/layer/router_capacity.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Six tokens of one sequence, two experts each, of three. Expert 0 is chosen by all tokens, expert
// 1 by three, expert 2 by three: 12 pairs, 4 per expert on average.
Routing six_tokens() {
  const at::Tensor experts =
      at::tensor({0, 1, 2, 0, 0, 1, 0, 2, 1, 0, 0, 2}, at::kLong).view({1, 6, 2});
  const at::Tensor weights =
      at::tensor({0.9, 0.1, 0.7, 0.3, 0.8, 0.2, 0.6, 0.4, 0.5, 0.3, 0.6, 0.4}, at::kDouble)
          .view({1, 6, 2});
  return {.experts = experts, .weights = weights};
}

// The tokens that an expert keeps.
std::vector<int64_t> tokens_of(int64_t expert, const at::Tensor& experts) {
  const at::Tensor found = (experts.flatten(0, 1) == expert).nonzero().select(1, 0).contiguous();
  return {found.const_data_ptr<int64_t>(), found.const_data_ptr<int64_t>() + found.numel()};
}

at::Tensor kept(const CapacityOptions& options, const Routing& routing = six_tokens(),
                const at::Tensor& places = {}) {
  RouterCapacity capacity(options, 3);
  capacity.begin();
  return capacity.keep(routing, places, 0);
}

using Tokens = std::vector<int64_t>;

TEST(RouterCapacity, AnExpertTakesAMultipleOfTheMean) {
  EXPECT_EQ(expert_capacity(1, 12, 3), 4);
  EXPECT_EQ(expert_capacity(1.25, 12, 3), 5);
  EXPECT_EQ(expert_capacity(1.1, 12, 3), 5);   // 4.4, rounded up.
  EXPECT_EQ(expert_capacity(1.1, 30, 3), 11);  // Not 12, though 1.1 · 10 is above 11 in binary.
  EXPECT_EQ(expert_capacity(0.01, 12, 3), 1);  // Never 0.
}

TEST(RouterCapacity, ByProbabilityTheLargestWeightsStay) {
  // Expert 0 has weights .9 .3 .8 .6 .3 .6 of tokens 0 to 5.
  const at::Tensor four = kept({.factor = 1});
  EXPECT_EQ(tokens_of(0, four), (Tokens{0, 2, 3, 5}));
  EXPECT_EQ(tokens_of(1, four), (Tokens{0, 2, 4}));
  EXPECT_EQ(tokens_of(2, four), (Tokens{1, 3, 5}));
  // Tokens 3 and 5 weigh the same for both experts: the first one stays.
  const at::Tensor two = kept({.factor = 0.5});
  EXPECT_EQ(tokens_of(0, two), (Tokens{0, 2}));
  EXPECT_EQ(tokens_of(1, two), (Tokens{2, 4}));
  EXPECT_EQ(tokens_of(2, two), (Tokens{1, 3}));
  EXPECT_EQ(tokens_of(0, kept({.factor = 0.75})), (Tokens{0, 2, 3}));
  EXPECT_EQ(tokens_of(kNoExpert, two).size(), 6U);
}

TEST(RouterCapacity, RoundingDoesNotTellWeightsApart) {
  Routing routing = six_tokens();
  routing.weights = routing.weights + at::arange(12, at::kDouble).view({1, 6, 2}) * 1e-7;
  EXPECT_TRUE(kept({.factor = 0.5}, routing).equal(kept({.factor = 0.5})));
}

TEST(RouterCapacity, ByPositionTheFirstTokensStay) {
  const at::Tensor four = kept({.factor = 1, .policy = DropPolicy::kPosition});
  EXPECT_EQ(tokens_of(0, four), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(tokens_of(1, four), (Tokens{0, 2, 4}));
  EXPECT_EQ(tokens_of(2, four), (Tokens{1, 3, 5}));
  const at::Tensor two = kept({.factor = 0.5, .policy = DropPolicy::kPosition});
  EXPECT_EQ(tokens_of(0, two), (Tokens{0, 1}));
  EXPECT_EQ(tokens_of(1, two), (Tokens{0, 2}));
  EXPECT_EQ(tokens_of(2, two), (Tokens{1, 3}));
}

// As on a rank of context parallelism, whose tokens are not in the order of the batch.
TEST(RouterCapacity, PlacesDecideWhoIsFirst) {
  const at::Tensor places = 5 - at::arange(6, at::kLong).view({1, 6});
  EXPECT_EQ(
      tokens_of(0, kept({.factor = 1, .policy = DropPolicy::kPosition}, six_tokens(), places)),
      (Tokens{2, 3, 4, 5}));
  EXPECT_EQ(tokens_of(0, kept({.factor = 0.75}, six_tokens(), places)), (Tokens{0, 2, 5}));
}

TEST(RouterCapacity, ExpertsWithRoomKeepAll) {
  EXPECT_TRUE(kept({.factor = 1.5}).equal(six_tokens().experts));
}

TEST(RouterCapacity, ADecisionStandsUntilTheStepEnds) {
  RouterCapacity capacity({.factor = 0.5}, 3);
  const Routing all = six_tokens();
  EXPECT_TRUE(capacity.keep(all, {}, 0).equal(all.experts));  // Not in a step.
  capacity.begin();
  const at::Tensor whole = capacity.keep(all, {}, 0);
  const at::Tensor places = at::arange(6, at::kLong).view({1, 6});
  for (int64_t i = 0; i < 6; i += 2) {  // In slices.
    const Routing slice{.experts = all.experts.narrow(1, i, 2),
                        .weights = all.weights.narrow(1, i, 2)};
    EXPECT_TRUE(capacity.keep(slice, places.narrow(1, i, 2), 0).equal(whole.narrow(1, i, 2)));
  }
  capacity.begin();  // Another step, though nobody has ended the one before.
  const Routing few{.experts = all.experts.narrow(1, 0, 1), .weights = all.weights.narrow(1, 0, 1)};
  EXPECT_TRUE(capacity.keep(few, {}, 0).equal(few.experts));
  capacity.end();
  EXPECT_TRUE(capacity.keep(all, {}, 0).equal(all.experts));
}

// The first three tokens here, the others on a rank that sends its counts and pairs.
TEST(RouterCapacity, OtherRanksCount) {
  const Routing all = six_tokens();
  const auto part = [&](int64_t first) {
    return Routing{.experts = all.experts.narrow(1, first, 3),
                   .weights = all.weights.narrow(1, first, 3)};
  };
  const auto counts = [](const Routing& r) { return at::bincount(r.experts.flatten(), {}, 3); };
  at::Tensor sent;  // The pairs of the second rank.
  RouterCapacity second({.factor = 0.5}, 3,
                        {.sum = [&](const at::Tensor& own) { return own + counts(part(0)); },
                         .gather =
                             [&](const at::Tensor& own) {
                               sent = own;
                               return own;
                             }});
  const at::Tensor places = at::arange(6, at::kLong).view({1, 6});
  second.begin();
  second.keep(part(3), places.narrow(1, 3, 3), 0);
  RouterCapacity first({.factor = 0.5}, 3,
                       {.sum = [&](const at::Tensor& own) { return own + counts(part(3)); },
                        .gather = [&](const at::Tensor& own) { return at::cat({sent, own}); }});
  first.begin();
  EXPECT_TRUE(
      first.keep(part(0), places.narrow(1, 0, 3), 0).equal(kept({.factor = 0.5}).narrow(1, 0, 3)));
}

TEST(RouterCapacity, AFactorThatIsNoneIsRefused) {
  for (const double factor : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(RouterCapacity({.factor = factor}, 3), ConfigError) << factor;
  }
}

}  // namespace
}  // namespace tessera
