// Compares the search with all possible orders of small problems.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tessera/base/text.h"
#include "tessera/schedule/internal/search_timer.h"
#include "tessera/schedule/search.h"
#include "tessera/schedule/verify.h"

namespace tessera {
namespace {

using schedule::detail::OrderTimer;
using schedule::detail::Phase;
using schedule::detail::Score;
using schedule::detail::SearchProblem;
using schedule::detail::TaskId;
using schedule::detail::TaskOrder;

/// All orders of one rank's tasks in which every F precedes its I, every I its W, and the limit on
/// activations holds. On rank 0 the first stage's microbatches are in order: they are only names.
class RowOrders {
 public:
  RowOrders(const SearchProblem& problem, size_t rank) : problem_(problem), rank_(rank) {
    for (const size_t stage : problem.stages_of[rank]) {
      for (size_t mb = 0; mb < problem.microbatches; ++mb) chains_.push_back({stage, mb, 0});
    }
    extend(0);
  }

  std::vector<std::vector<TaskId>> take() { return std::move(found_); }

 private:
  struct Chain {
    size_t stage;
    size_t microbatch;
    int done;  // 3 if its W is done.
  };

  void extend(size_t live) {
    if (row_.size() == 3 * chains_.size()) return found_.push_back(row_);
    for (Chain& chain : chains_) {
      if (chain.done == 3 || (chain.done == 0 && (live == problem_.limit || skips_one(chain)))) {
        continue;
      }
      const size_t live_then = live + (chain.done == 0) - (chain.done == 2);
      row_.push_back(problem_.task(static_cast<Phase>(chain.done), chain.stage, chain.microbatch));
      ++chain.done;
      extend(live_then);
      --chain.done;
      row_.pop_back();
    }
  }

  bool skips_one(const Chain& chain) const {
    const bool named = rank_ == 0 && chain.stage == 0 && chain.microbatch > 0;
    return named && chains_[chain.microbatch - 1].done == 0;
  }

  const SearchProblem& problem_;
  size_t rank_;
  std::vector<Chain> chains_;
  std::vector<TaskId> row_;
  std::vector<std::vector<TaskId>> found_;
};

Score best_of_all(const SearchProblem& problem) {
  std::vector<std::vector<std::vector<TaskId>>> rows;
  for (size_t rank = 0; rank < problem.num_ranks(); ++rank) {
    rows.push_back(RowOrders(problem, rank).take());
  }
  OrderTimer timer(problem);
  TaskOrder order(problem.num_ranks());
  Score best;
  const std::function<void(size_t)> choose = [&](size_t rank) {
    if (rank == rows.size()) {
      const Score score = timer.run(order);
      if (score.is_better_than(best)) best = score;
      return;
    }
    for (const auto& row : rows[rank]) {
      order[rank] = row;
      choose(rank + 1);
    }
  };
  choose(0);
  return best;
}

struct Case {
  int64_t pp;
  int64_t stages_per_rank;
  int64_t microbatches;
  StagePlacement placement;

  friend std::ostream& operator<<(std::ostream& out, const Case& shape) {
    return out << "pp " << shape.pp << ", " << shape.stages_per_rank << " stages per rank, "
               << shape.microbatches << " microbatches, " << to_string(shape.placement);
  }
};

constexpr StagePlacement kLoop = StagePlacement::kLoop;
constexpr StagePlacement kV = StagePlacement::kV;

class Exact : public testing::TestWithParam<Case> {};

// The best order, and the result of the search.
struct Compared {
  Score best;
  SearchResult found;
};

Compared compare(const Case& shape, const Costs& costs, int64_t limit) {
  const SearchProblem problem({shape.pp, shape.pp * shape.stages_per_rank, shape.microbatches},
                              shape.placement, costs, limit);
  Compared compared{best_of_all(problem), search({.pp = shape.pp,
                                                  .microbatches = shape.microbatches,
                                                  .stages_per_rank = shape.stages_per_rank,
                                                  .placement = shape.placement,
                                                  .costs = costs,
                                                  .memory_limit = limit})};
  verify(compared.found.schedule);
  EXPECT_LE(compared.found.bound, compared.best.longest_span + 1e-9);
  EXPECT_LE(bound_of(problem).makespan, compared.best.makespan + 1e-9);
  return compared;
}

TEST_P(Exact, IsTheBestOfAllOrders) {
  const Case shape = GetParam();
  const std::vector<Costs> settings{
      {},
      {.forward = {1}, .input_grad = {1.2}, .weight_grad = {0.9}, .message = {0.1}},
      {.forward = {2}, .input_grad = {1}, .weight_grad = {1}, .message = {0.05}},
      {.forward = {1}, .input_grad = {2}, .weight_grad = {0.5}, .message = {0.3}},
      {.forward = {1}, .input_grad = {1}, .weight_grad = {3}, .message = {0}},
  };
  for (const Costs& costs : settings) {
    for (int64_t limit = shape.stages_per_rank; limit <= shape.stages_per_rank * shape.microbatches;
         ++limit) {
      SCOPED_TRACE(concat("f ", costs.forward[0], " i ", costs.input_grad[0], " w ",
                          costs.weight_grad[0], " message ", costs.message[0], " limit ", limit));
      const auto [best, found] = compare(shape, costs, limit);
      EXPECT_NEAR(longest_span(found.simulation), best.longest_span, 1e-9) << found.schedule;
      EXPECT_NEAR(found.simulation.makespan, best.makespan, 1e-9) << found.schedule;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Small, Exact,
                         testing::Values(Case{1, 1, 3, kLoop}, Case{2, 1, 2, kLoop},
                                         Case{2, 1, 3, kLoop}, Case{3, 1, 2, kLoop},
                                         Case{4, 1, 2, kLoop}, Case{2, 2, 1, kLoop},
                                         Case{2, 2, 1, kV}, Case{1, 2, 2, kV}));

// Different stages: the dispatcher alone misses some of the best orders.
TEST(ExactWithUnevenStages, HasTheShortestSpan) {
  std::mt19937 random(2);
  const auto any = [&](uint32_t first, uint32_t count, int64_t stages) {
    std::vector<double> times;
    for (int64_t i = 0; i < stages; ++i) times.push_back((first + random() % count) / 4.0);
    return times;
  };
  for (const Case& shape : {Case{2, 1, 3, kLoop}, Case{4, 1, 2, kLoop}}) {
    for (int round = 0; round < 60; ++round) {
      SCOPED_TRACE(concat("pp ", shape.pp, " round ", round));
      const Costs costs{.forward = any(1, 8, shape.pp),
                        .input_grad = any(1, 8, shape.pp),
                        .weight_grad = any(1, 8, shape.pp),
                        .message = any(0, 3, shape.pp)};
      const auto limit = 1 + static_cast<int64_t>(random()) % shape.microbatches;
      const auto [best, found] = compare(shape, costs, limit);
      EXPECT_NEAR(longest_span(found.simulation), best.longest_span, 1e-9) << found.schedule;
    }
  }
}

}  // namespace
}  // namespace tessera
