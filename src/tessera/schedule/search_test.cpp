#include "tessera/schedule/search.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/schedule/verify.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using enum ScheduleKind;

Costs costs(double forward, double input_grad, double weight_grad, double message = 0) {
  return {.forward = {forward},
          .input_grad = {input_grad},
          .weight_grad = {weight_grad},
          .message = {message}};
}

SearchResult find(ScheduleKind kind, int64_t pp, int64_t microbatches, const Costs& times = {},
                  int64_t stages_per_rank = 0) {
  return search(search_request({kind, pp, microbatches, stages_per_rank}, times));
}

double longest_gap(const Simulation& simulation) {
  double longest = 0;
  for (const RankTimes& rank : simulation.ranks) longest = std::max(longest, rank.gap);
  return longest;
}

void expect_sound(const SearchResult& result, int64_t limit) {
  verify(result.schedule);
  for (const RankTimes& rank : result.simulation.ranks) EXPECT_LE(rank.peak_activations, limit);
  EXPECT_GE(longest_span(result.simulation), result.bound * (1 - 1e-9));
}

template <class Call>
void expect_refusal(const Call& call, const std::vector<std::string>& parts) {
  const std::string message = testkit::message_of<ConfigError>(call);
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(SearchedKind, ZeroBubbleH1ReachesItsBubble) {
  for (const auto& [f, i, w] : {std::tuple{1.0, 1.0, 1.0}, {1.0, 1.2, 0.9}, {2.0, 1.0, 1.0}}) {
    for (const int64_t pp : {1, 2, 3, 4, 6, 8, 16}) {
      for (const int64_t rounds : {2, 3}) {
        SCOPED_TRACE(concat("f ", f, " i ", i, " w ", w, " pp ", pp, " rounds ", rounds));
        const SearchResult result = find(kZBH1, pp, rounds * pp, costs(f, i, w));
        expect_sound(result, pp);
        const double bubble = static_cast<double>(pp - 1) * (f + i - w);
        EXPECT_NEAR(longest_gap(result.simulation), bubble, 1e-9);
        EXPECT_NEAR(longest_span(result.simulation), result.bound, 1e-9);
      }
    }
  }
}

// With W longer than F, the formula promises less than the limit of pp allows: the first rank runs
// out of forwards before its first gradient arrives.
TEST(SearchedKind, ZeroBubbleH1WithLongWeightGradientsReachesTheBound) {
  const SearchResult result = find(kZBH1, 8, 32, costs(1, 1, 2));
  expect_sound(result, 8);
  EXPECT_NEAR(longest_gap(result.simulation), 7, 1e-9);
  EXPECT_NEAR(longest_span(result.simulation), result.bound, 1e-9);
}

TEST(SearchedKind, ZeroBubbleH2HasNoGaps) {
  for (const int64_t pp : {1, 2, 3, 4, 6, 8, 16}) {
    for (const int64_t microbatches : {2 * pp - 1, 2 * pp, 3 * pp}) {
      SCOPED_TRACE(concat("pp ", pp, " microbatches ", microbatches));
      const SearchResult result = find(kZBH2, pp, microbatches);
      expect_sound(result, 2 * pp - 1);
      EXPECT_NEAR(longest_gap(result.simulation), 0, 1e-9);
      const auto busy = 3 * static_cast<double>(microbatches);
      EXPECT_NEAR(result.simulation.makespan - busy, static_cast<double>(pp - 1), 1e-9);
    }
  }
}

// The papers give about a half and two thirds of 1F1B's bubble, which is 6(p − 1) in half stages.
TEST(SearchedKind, VKindsReachThePapersBubbles) {
  for (const int64_t pp : {2, 3, 4, 5, 6, 8, 12}) {
    SCOPED_TRACE(concat("pp ", pp));
    const SearchResult half = find(kVHalf, pp, 2 * pp);
    expect_sound(half, 2 * ((pp + 2) / 2));
    EXPECT_LE(longest_gap(half.simulation), 3 * static_cast<double>(pp - 1));
    const SearchResult min = find(kVMin, pp, 2 * pp);
    expect_sound(min, 2 * ((pp + 4) / 3));
    EXPECT_LE(longest_gap(min.simulation), 4 * static_cast<double>(pp - 1));
  }
}

TEST(SearchedKind, LiesAsItsFamilyDoes) {
  EXPECT_EQ(find(kZBH1, 2, 4).schedule.num_stages(), 2);
  for (const ScheduleKind kind : {kVHalf, kVMin}) {
    const SearchResult result = find(kind, 3, 6);
    EXPECT_EQ(result.placement, StagePlacement::kV);
    EXPECT_EQ(result.schedule.rank_of(2), result.schedule.rank_of(3));
    EXPECT_EQ(result.schedule.name(), to_string(kind));
  }
}

TEST(Search, TakesTheBetterPlacement) {
  const SearchResult any =
      search({.pp = 4, .microbatches = 8, .stages_per_rank = 2, .memory_limit = 8});
  const SearchResult loop = search({.pp = 4,
                                    .microbatches = 8,
                                    .stages_per_rank = 2,
                                    .placement = StagePlacement::kLoop,
                                    .memory_limit = 8});
  EXPECT_EQ(any.placement, StagePlacement::kV);  // ZBV has no gaps within this memory.
  EXPECT_EQ(any.family, kZBVZeroBubble);
  EXPECT_LT(longest_span(any.simulation), longest_span(loop.simulation));
}

TEST(Search, SaysWhetherItImprovedTheFamily) {
  const SearchResult same = find(kZBH1, 4, 8);
  EXPECT_EQ(same.family, kInterleavedZeroBubble);
  EXPECT_FALSE(same.improved);
  const SearchResult shorter = find(kZBH2, 4, 8);
  EXPECT_EQ(shorter.family, kInterleavedZeroBubble);
  EXPECT_TRUE(shorter.improved);
  const SearchResult alone = find(kVMin, 4, 8);
  EXPECT_EQ(alone.family, std::nullopt);  // Every family of this placement holds more.
  EXPECT_TRUE(alone.improved);
}

TEST(Search, IsDeterministicAndBoundedInSteps) {
  const SearchRequest request{.pp = 16,
                              .microbatches = 64,
                              .stages_per_rank = 2,
                              .costs = costs(1, 1.2, 0.9, 0.1),
                              .memory_limit = 18};
  const SearchResult result = search(request);
  EXPECT_EQ(result.schedule, search(request).schedule);
  EXPECT_LE(result.steps, 40'000'000);
}

TEST(Search, TakesOneMicrobatchAndOneRank) {
  EXPECT_DOUBLE_EQ(find(kAuto, 1, 1).simulation.makespan, 3);
  EXPECT_DOUBLE_EQ(find(kAuto, 4, 1).simulation.makespan, 9);  // W of the first rank at the end.
  EXPECT_DOUBLE_EQ(find(kAuto, 1, 3, {}, 2).simulation.makespan, 18);
}

TEST(Search, TakesWorkWithoutDuration) {
  const SearchResult result = find(kZBH1, 4, 8, costs(0, 0, 0));
  verify(result.schedule);
  EXPECT_DOUBLE_EQ(result.simulation.makespan, 0);
}

TEST(Search, RefusesALimitBelowOneMicrobatch) {
  expect_refusal([] { search({.pp = 4, .microbatches = 8, .memory_limit = 0}); },
                 {"memory limit 0", "at least 1"});
  expect_refusal(
      [] { search({.pp = 4, .microbatches = 8, .stages_per_rank = 3, .memory_limit = 2}); },
      {"memory limit 2", "at least 3"});
  const SearchRequest smallest{.pp = 4, .microbatches = 8, .stages_per_rank = 3, .memory_limit = 3};
  expect_sound(search(smallest), 3);
}

TEST(Search, RefusesWhatIsNoPipeline) {
  expect_refusal([] { search({.pp = 0}); }, {"pp is 0"});
  expect_refusal([] { search({.microbatches = -1}); }, {"microbatches is -1"});
  expect_refusal([] { search({.stages_per_rank = 0}); }, {"stages per rank is 0"});
  expect_refusal([] { search({.pp = 1 << 20, .microbatches = 1 << 20}); },
                 {"3,298,534,883,328 actions"});
}

TEST(Search, RefusesCostsThatAreNoTimes) {
  expect_refusal([] { find(kZBH1, 4, 8, costs(-1, 1, 1)); }, {"forward of -1"});
  expect_refusal([] { find(kVMin, 4, 8, costs(1, 1, 1, NAN)); }, {"message of"});
  expect_refusal([] { find(kZBH1, 4, 8, costs(1e307, 1e307, 1e307)); }, {"a larger unit"});
  const Costs three{.forward = {1, 2, 3}};
  expect_refusal([&] { find(kZBH1, 4, 8, three); }, {"3 values for 4 stages"});
}

TEST(MakeSchedule, GeneratesAndSearches) {
  const ScheduleConfig one{k1F1B, 4, 8};
  EXPECT_EQ(make_schedule(one, {}), generate(one));
  EXPECT_EQ(make_schedule(one, {}, 4), generate(one));
  EXPECT_EQ(make_schedule({kZBH2, 4, 8}, {}), find(kZBH2, 4, 8).schedule);
  EXPECT_EQ(make_schedule({kAuto, 4, 8}, {}, 4).name(), "auto");
}

TEST(MakeSchedule, KeepsTheLowerLimit) {
  const Schedule schedule = make_schedule({kZBH2, 4, 8}, {}, 5);
  for (const RankTimes& rank : simulate(schedule, {}).ranks) EXPECT_LE(rank.peak_activations, 5);
}

TEST(MakeSchedule, RefusesWhatDoesNotFit) {
  expect_refusal([] { make_schedule({kGPipe, 4, 8}, {}, 7); },
                 {"GPipe holds 8", "limit 7", "auto"});
  expect_refusal([] { make_schedule({kZBH1, 4, 8, 2}, {}); },
                 {"ZBH1 has exactly 1 stage per rank, not 2", "auto"});
  expect_refusal([] { make_schedule({kVHalf, 4, 8, 3}, {}); }, {"2 stages"});
  expect_refusal([] { search_request({kGPipe, 4, 8}, {}); }, {"generate it"});
}

}  // namespace
}  // namespace tessera
