#include "tessera/schedule/search.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/schedule/internal/search_dispatch.h"
#include "tessera/schedule/internal/search_improve.h"
#include "tessera/schedule/internal/search_patterns.h"

namespace tessera {
namespace {

using schedule::detail::Dispatcher;
using schedule::detail::DispatchRules;
using schedule::detail::OrderTimer;
using schedule::detail::Score;
using schedule::detail::SearchProblem;
using schedule::detail::TargetTimes;
using schedule::detail::TaskOrder;

// Together less than a second for 16 ranks × 64 microbatches; placing a task takes about ten times
// as long as timing it.
constexpr int64_t kMostPlaced = 3'000'000;
constexpr int64_t kMostTimed = 30'000'000;
constexpr int64_t kAttemptsPerTask = 20;  // Small tables reach their best long before.

constexpr std::array kFamilies{ScheduleKind::kGPipe,
                               ScheduleKind::k1F1B,
                               ScheduleKind::kInterleaved1F1B,
                               ScheduleKind::kLoopedBFS,
                               ScheduleKind::kInterleavedZeroBubble,
                               ScheduleKind::kZBVZeroBubble,
                               ScheduleKind::kDualPipeV};

bool is_better(const Simulation& a, const Simulation& b) {
  const double span_a = longest_span(a);
  const double span_b = longest_span(b);
  if (schedule::detail::is_shorter(span_a, span_b)) return true;
  return !schedule::detail::is_shorter(span_b, span_a) &&
         schedule::detail::is_shorter(a.makespan, b.makespan);
}

bool is_possible(const ScheduleConfig& config) {
  try {
    check_config(config);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

struct Simulated {
  Schedule schedule;
  Simulation simulation;
};

struct Family {
  ScheduleKind kind;
  Simulated table;
};

// The first one if they are equally good.
std::optional<Family> better_of(std::optional<Family> a, std::optional<Family> b) {
  if (!a || !b) return a ? a : b;
  return is_better(b->table.simulation, a->table.simulation) ? b : a;
}

// The result of one placement, or of the better of two.
struct Found {
  Simulated table;
  StagePlacement placement;
  std::optional<Family> family;
  double bound;
  int64_t steps;
};

Found better_of(Found a, Found b) {
  const bool second = is_better(b.table.simulation, a.table.simulation);
  const int64_t steps = a.steps + b.steps;
  std::optional<Family> family = better_of(std::move(a.family), std::move(b.family));
  Found best = second ? std::move(b) : std::move(a);
  best.family = std::move(family);
  best.steps = steps;
  return best;
}

class PlacementSearch {
 public:
  PlacementSearch(const SearchRequest& request, StagePlacement placement, int64_t limit,
                  int64_t share)
      : request_(request),
        placement_(placement),
        problem_({request.pp, request.pp * request.stages_per_rank, request.microbatches},
                 placement, request.costs, limit),
        dispatcher_(problem_),
        timer_(problem_),
        share_(share) {
    TSR_CHECK(std::isfinite(problem_.time_of_all()),
              "the sum of all task times overflows; choose a larger unit of time");
  }

  Found run() {
    std::optional<Family> family = best_family();
    add_dispatched();
    TSR_ASSERT(!orders_.empty(), "no order was found");
    improve_best();
    Simulated found = simulated(to_schedule(problem_, orders_.front().order, request_.name));
    const bool worse = family && !is_better(found.simulation, family->table.simulation);
    return {.table = worse ? renamed(family->table) : std::move(found),
            .placement = placement_,
            .family = std::move(family),
            .bound = bound_of(problem_).longest_span,
            .steps = dispatcher_.steps() + timer_.steps()};
  }

 private:
  struct Scored {
    TaskOrder order;
    Score score;
  };

  Simulated simulated(Schedule schedule) const {
    Simulation simulation = simulate(schedule, request_.costs);
    return {std::move(schedule), std::move(simulation)};
  }

  Simulated renamed(const Simulated& table) const {
    const auto rows = table.schedule.rows();
    return {Schedule(request_.name, table.schedule.shape(), {rows.begin(), rows.end()}),
            table.simulation};
  }

  std::optional<Family> best_family() {
    std::optional<Family> best;
    for (const ScheduleKind kind : kFamilies) {
      const ScheduleConfig config{kind, request_.pp, request_.microbatches,
                                  request_.stages_per_rank};
      const bool placed = placement_of(kind) == placement_ || request_.stages_per_rank == 1;
      if (!placed || !is_possible(config)) continue;
      Simulated table = simulated(generate(config).without_idle());
      if (peak_activations(table.simulation) > static_cast<int64_t>(problem_.limit)) continue;
      keep(to_order(problem_, table.schedule));
      best = better_of(std::move(best), Family{kind, std::move(table)});
    }
    return best;
  }

  void add_dispatched() {
    constexpr std::array<double, 2> kOverruns{0, 0.5};
    const auto tasks = static_cast<int64_t>(problem_.tasks.size());
    const auto runs =
        static_cast<size_t>(std::clamp<int64_t>(kMostPlaced / share_ / tasks, 4, 480));
    for (const TargetTimes& targets : simple_targets()) {
      for (const double overrun : kOverruns) dispatch(targets, {.overrun = overrun});
    }
    for (const TargetTimes& targets : follow_patterns(problem_, runs / 4)) {
      for (const double overrun : kOverruns) {
        dispatch(targets, {.in_order = false, .overrun = overrun});
        dispatch(targets, {.in_order = true, .overrun = overrun});
      }
    }
  }

  // Backward first, by microbatch, and forward first while memory allows.
  std::vector<TargetTimes> simple_targets() const {
    const auto never = static_cast<double>(problem_.microbatches + 1);
    const std::vector<double> zeros(problem_.num_stages());
    std::vector<TargetTimes> targets;
    for (const double backward : {-never, -0.5, never}) {
      targets.push_back(
          {.forward = zeros, .input_grad = std::vector<double>(problem_.num_stages(), backward)});
    }
    return targets;
  }

  void dispatch(const TargetTimes& targets, DispatchRules rules) {
    if (auto order = dispatcher_.run(targets, rules)) keep(std::move(*order));
  }

  // Keeps the best few, best first.
  void keep(TaskOrder order) {
    constexpr size_t kKept = 4;
    Scored scored{std::move(order), {}};
    scored.score = timer_.run(scored.order);
    const auto place = std::ranges::find_if(
        orders_, [&](const Scored& other) { return scored.score.is_better_than(other.score); });
    orders_.insert(place, std::move(scored));
    if (orders_.size() > kKept) orders_.pop_back();
  }

  void improve_best() {
    const auto tasks = static_cast<int64_t>(problem_.tasks.size());
    const int64_t attempts = std::min(kMostTimed / share_ / tasks, kAttemptsPerTask * tasks);
    const auto share = static_cast<int64_t>(orders_.size() + 1);
    schedule::detail::Improver improver(problem_, timer_, attempts);
    for (Scored& scored : orders_) scored.score = improver.climb(scored.order, attempts / share);
    const auto best = std::ranges::min_element(
        orders_, [](const Scored& a, const Scored& b) { return a.score.is_better_than(b.score); });
    improver.perturb_and_climb(best->order);
    std::iter_swap(orders_.begin(), best);
  }

  const SearchRequest& request_;
  StagePlacement placement_;
  SearchProblem problem_;
  Dispatcher dispatcher_;
  OrderTimer timer_;
  int64_t share_;
  std::vector<Scored> orders_;
};

// Checks the costs on the smallest table with these stages.
void check_costs(const SearchRequest& request) {
  simulate(generate({.kind = ScheduleKind::kLoopedBFS,
                     .pp = request.pp,
                     .microbatches = 1,
                     .stages_per_rank = request.stages_per_rank}),
           request.costs);
}

void check(const SearchRequest& request) {
  TSR_CHECK(request.stages_per_rank >= 1, "stages per rank is ", request.stages_per_rank,
            ", but must be at least 1");
  // LoopedBFS accepts every valid shape.
  check_config(
      {ScheduleKind::kLoopedBFS, request.pp, request.microbatches, request.stages_per_rank});
  TSR_CHECK(!request.memory_limit || *request.memory_limit >= request.stages_per_rank,
            "memory limit ", *request.memory_limit, " is too small: one microbatch leaves ",
            request.stages_per_rank, " activations on a rank, one per stage; raise ",
            "the limit to at least ", request.stages_per_rank);
  check_costs(request);
}

std::vector<StagePlacement> placements_of(const SearchRequest& request) {
  if (request.placement) return {*request.placement};
  if (request.stages_per_rank == 1) return {StagePlacement::kLoop};  // A V is the same placement.
  return {StagePlacement::kLoop, StagePlacement::kV};
}

// The memory limit by which a searched kind is defined.
std::optional<int64_t> family_limit(ScheduleKind kind, int64_t pp) {
  switch (kind) {
    case ScheduleKind::kZBH1:
      return pp;
    case ScheduleKind::kZBH2:
      return 2 * pp - 1;
    case ScheduleKind::kVHalf:
      return 2 * ((pp + 2) / 2);
    case ScheduleKind::kVMin:
      return 2 * ((pp + 4) / 3);
    default:
      return std::nullopt;
  }
}

std::optional<int64_t> lower_of(std::optional<int64_t> a, std::optional<int64_t> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

}  // namespace

double longest_span(const Simulation& simulation) {
  double longest = 0;
  for (const RankTimes& rank : simulation.ranks) longest = std::max(longest, rank.active.length());
  return longest;
}

SearchResult search(const SearchRequest& request) {
  check(request);
  const int64_t all = request.stages_per_rank * request.microbatches;
  const int64_t limit = std::min(request.memory_limit.value_or(all), all);
  const std::vector<StagePlacement> placements = placements_of(request);
  const auto run = [&](StagePlacement placement) {
    const auto share = static_cast<int64_t>(placements.size());
    return PlacementSearch(request, placement, limit, share).run();
  };
  Found best = run(placements.front());
  for (size_t i = 1; i < placements.size(); ++i) {
    best = better_of(std::move(best), run(placements[i]));
  }
  const bool improved =
      !best.family || is_better(best.table.simulation, best.family->table.simulation);
  return {.schedule = std::move(best.table.schedule),
          .simulation = std::move(best.table.simulation),
          .placement = best.placement,
          .family = best.family ? std::optional(best.family->kind) : std::nullopt,
          .improved = improved,
          .bound = best.bound,
          .steps = best.steps};
}

SearchRequest search_request(const ScheduleConfig& config, const Costs& costs,
                             std::optional<int64_t> memory_limit) {
  const ScheduleKind kind = config.kind;
  TSR_CHECK(!is_generated(kind), to_string(kind), " needs no search; generate it");
  const int64_t usual = default_stages_per_rank(kind);
  const int64_t stages = config.stages_per_rank == 0 ? usual : config.stages_per_rank;
  const bool any = kind == ScheduleKind::kAuto;
  TSR_CHECK(any || stages == usual, to_string(kind), " has exactly ", usual,
            usual == 1 ? " stage" : " stages", " per rank, not ", stages,
            "; choose auto for other numbers");
  return {.pp = config.pp,
          .microbatches = config.microbatches,
          .stages_per_rank = stages,
          .placement = any ? std::nullopt : std::optional(placement_of(kind)),
          .costs = costs,
          .memory_limit = lower_of(memory_limit, family_limit(kind, config.pp)),
          .name = std::string(to_string(kind))};
}

Schedule make_schedule(const ScheduleConfig& config, const Costs& costs,
                       std::optional<int64_t> memory_limit) {
  if (!is_generated(config.kind))
    return search(search_request(config, costs, memory_limit)).schedule;
  Schedule schedule = generate(config);
  if (!memory_limit) return schedule;
  const int64_t peak = peak_activations(simulate(schedule, costs));
  TSR_CHECK(peak <= *memory_limit, to_string(config.kind), " holds ", peak,
            " activations on a rank, more than the memory limit ", *memory_limit,
            "; raise the limit, or choose auto, which searches under it");
  return schedule;
}

}  // namespace tessera
