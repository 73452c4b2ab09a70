// Properties of every search, for random pipelines, costs and limits.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tessera/base/error.h"
#include "tessera/schedule/search.h"
#include "tessera/schedule/verify.h"

namespace tessera {
namespace {

std::vector<double> any_times(int64_t num_stages) {
  const int64_t count = *rc::gen::element<int64_t>(1, num_stages);
  std::vector<double> times;
  for (int64_t i = 0; i < count; ++i) times.push_back(*rc::gen::inRange(0, 9) / 4.0);
  return times;
}

Costs any_costs(int64_t num_stages) {
  return {.forward = any_times(num_stages),
          .input_grad = any_times(num_stages),
          .weight_grad = any_times(num_stages),
          .message = any_times(num_stages),
          .overlap = *rc::gen::element(1.0, 0.8, 1.1)};
}

SearchRequest any_request() {
  SearchRequest request;
  request.pp = *rc::gen::inRange<int64_t>(1, 5);
  request.microbatches = *rc::gen::inRange<int64_t>(1, 8);
  request.stages_per_rank = *rc::gen::element<int64_t>(1, 1, 1, 1, 2, 3);
  request.placement = *rc::gen::element<std::optional<StagePlacement>>(
      std::nullopt, StagePlacement::kLoop, StagePlacement::kV);
  request.costs = any_costs(request.pp * request.stages_per_rank);
  if (*rc::gen::arbitrary<bool>()) {
    request.memory_limit = *rc::gen::inRange(request.stages_per_rank, int64_t{12});
  }
  return request;
}

int64_t peak(const Simulation& simulation) {
  int64_t most = 0;
  for (const RankTimes& rank : simulation.ranks) most = std::max(most, rank.peak_activations);
  return most;
}

// The family's times if it exists in this shape and fits.
std::optional<Simulation> family(const SearchRequest& request, const std::string& name) {
  const ScheduleKind kind = parse_schedule_kind(name);
  const bool elsewhere = request.placement && *request.placement != placement_of(kind);
  if (!is_generated(kind) || (elsewhere && request.stages_per_rank > 1)) return std::nullopt;
  try {
    const Schedule schedule =
        generate({kind, request.pp, request.microbatches, request.stages_per_rank});
    Simulation simulation = simulate(schedule, request.costs);
    const bool fits = !request.memory_limit || peak(simulation) <= *request.memory_limit;
    return fits ? std::optional(std::move(simulation)) : std::nullopt;
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

RC_GTEST_PROP(SearchProperty, IsValidFitsAndIsNeverWorseThanAFamily, ()) {
  constexpr double kRounding = 1 + 1e-9;
  const SearchRequest request = any_request();
  const SearchResult result = search(request);
  verify(result.schedule);
  const double span = longest_span(result.simulation);
  RC_ASSERT(result.bound <= span * kRounding);
  if (request.memory_limit) RC_ASSERT(peak(result.simulation) <= *request.memory_limit);
  bool equalled = false;
  for (const std::string& name : schedule_kind_names()) {
    const std::optional<Simulation> other = family(request, name);
    if (!other) continue;
    RC_ASSERT(result.family.has_value());
    RC_ASSERT(span <= longest_span(*other) * kRounding);
    if (span * kRounding < longest_span(*other)) continue;
    RC_ASSERT(result.simulation.makespan <= other->makespan * kRounding);
    equalled = equalled || result.simulation.makespan * kRounding >= other->makespan;
  }
  RC_ASSERT(result.improved != equalled);
}

}  // namespace
}  // namespace tessera
