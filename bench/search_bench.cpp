// How long the search takes for 16 ranks × 64 microbatches, and what it reaches: by how much
// the longest rank takes longer than the busiest one computes, beside the best family that fits and
// the bound under which no schedule is. Times per stage and microbatch; messages take 0.05 where
// the times differ.
#include <benchmark/benchmark.h>

#include "tessera/schedule/search.h"

namespace tessera {
namespace {

constexpr int64_t kRanks = 16;
constexpr int64_t kMicrobatches = 64;

Costs equal() {
  return {};
}
Costs long_backward() {
  return {.forward = {1}, .input_grad = {1.2}, .weight_grad = {0.9}, .message = {0.05}};
}
Costs long_weight() {
  return {.forward = {1}, .input_grad = {1}, .weight_grad = {1.5}, .message = {0.05}};
}
Costs heavy_last() {  // The head of the model as one more layer, four in a stage.
  Costs costs{.message = {0.05}};
  for (auto* times : {&costs.forward, &costs.input_grad, &costs.weight_grad}) {
    times->assign(kRanks, 1);
    times->back() = 1.25;
  }
  return costs;
}

// By how much the longest rank takes longer than the busiest one computes.
double idle(double span, const Simulation& simulation) {
  double busy = 0;
  for (const RankTimes& rank : simulation.ranks) busy = std::max(busy, rank.busy);
  return span - busy;
}

void report(benchmark::State& state, const SearchRequest& request, const SearchResult& result) {
  const Simulation& found = result.simulation;
  state.counters["idle"] = idle(longest_span(found), found);
  state.counters["bound"] = idle(result.bound, found);
  state.counters["steps"] = static_cast<double>(result.steps);
  if (!result.family) return;
  const Simulation family = simulate(
      generate({*result.family, kRanks, kMicrobatches, request.stages_per_rank}), request.costs);
  state.counters["family"] = idle(longest_span(family), family);
  state.SetLabel(std::string(to_string(*result.family)));
}

void Search(benchmark::State& state, ScheduleKind kind, int64_t stages_per_rank,
            std::optional<int64_t> limit, const Costs& costs) {
  const SearchRequest request =
      search_request({kind, kRanks, kMicrobatches, stages_per_rank}, costs, limit);
  for (auto _ : state) benchmark::DoNotOptimize(search(request));
  report(state, request, search(request));
}

#define TSR_SEARCH(name, kind, stages, limit, costs)                        \
  BENCHMARK_CAPTURE(Search, name, ScheduleKind::kind, stages, limit, costs) \
      ->Unit(benchmark::kMillisecond)

TSR_SEARCH(zbh1_equal, kZBH1, 1, std::nullopt, equal());
TSR_SEARCH(zbh1_long_backward, kZBH1, 1, std::nullopt, long_backward());
TSR_SEARCH(zbh1_heavy_last, kZBH1, 1, std::nullopt, heavy_last());
TSR_SEARCH(zbh2_equal, kZBH2, 1, std::nullopt, equal());
TSR_SEARCH(zbh2_long_backward, kZBH2, 1, std::nullopt, long_backward());
TSR_SEARCH(zbh2_heavy_last, kZBH2, 1, std::nullopt, heavy_last());
TSR_SEARCH(vhalf_equal, kVHalf, 2, std::nullopt, equal());
TSR_SEARCH(vhalf_long_backward, kVHalf, 2, std::nullopt, long_backward());
TSR_SEARCH(vhalf_long_weight, kVHalf, 2, std::nullopt, long_weight());
TSR_SEARCH(vmin_equal, kVMin, 2, std::nullopt, equal());
TSR_SEARCH(vmin_long_backward, kVMin, 2, std::nullopt, long_backward());
TSR_SEARCH(vmin_long_weight, kVMin, 2, std::nullopt, long_weight());
TSR_SEARCH(auto_two_stages_equal, kAuto, 2, 2 * kRanks, equal());
TSR_SEARCH(auto_two_stages_long_backward, kAuto, 2, 2 * kRanks, long_backward());
TSR_SEARCH(auto_two_stages_long_weight, kAuto, 2, 2 * kRanks, long_weight());

}  // namespace
}  // namespace tessera
