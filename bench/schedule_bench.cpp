// How long pipeline tables take: made, lowered and verified, simulated.
// bench/peers/torch_schedule.py does the same with the peer's own code for the same tables.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include "tessera/base/text.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tessera/schedule/simulate.h"
#include "tessera/schedule/verify.h"

namespace tessera {
namespace {

// The peer's tables of one stage per rank hold the reduction of gradients from the start.
void make(benchmark::State& state, const ScheduleConfig& config) {
  const bool reduces = is_single_stage(config.kind);
  for (auto _ : state) {
    Schedule table = generate(config);
    if (reduces) table = with_reduce_grad(table);
    benchmark::DoNotOptimize(table);
  }
}

// From a compute table to one that is executed, both proved.
void lower_and_verify(benchmark::State& state, const ScheduleConfig& config) {
  const Schedule compute = generate(config);
  for (auto _ : state) {
    const Schedule lowered = lower(compute);
    benchmark::DoNotOptimize(verify(lowered));
  }
}

// The table with its messages, as the peer's dry run wants it.
void simulate_messages(benchmark::State& state, const ScheduleConfig& config) {
  const Schedule lowered = lower(generate(config), {.messages_only = true});
  for (auto _ : state) benchmark::DoNotOptimize(simulate(lowered, {}));
}

void simulate_compute(benchmark::State& state, const ScheduleConfig& config) {
  const Schedule compute = generate(config);
  for (auto _ : state) benchmark::DoNotOptimize(simulate(compute, {}));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  constexpr double kKiloPerMega = 1024;
  state.counters["peak_MB"] = static_cast<double>(usage.ru_maxrss) / kKiloPerMega;
}

using Measure = void (*)(benchmark::State&, const ScheduleConfig&);

void add(std::string_view what, Measure measure, const ScheduleConfig& config) {
  const std::string name =
      concat(what, "/", to_string(config.kind), "/", config.pp, "/", config.microbatches);
  benchmark::RegisterBenchmark(name.c_str(), measure, config)->Unit(benchmark::kMillisecond);
}

bool add_all() {
  for (const ScheduleKind kind :
       {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kLoopedBFS,
        ScheduleKind::kInterleaved1F1B, ScheduleKind::kInterleavedZeroBubble,
        ScheduleKind::kZBVZeroBubble, ScheduleKind::kDualPipeV}) {
    for (const auto& [pp, microbatches] : {std::pair<int64_t, int64_t>{4, 16}, {8, 32}, {16, 64}}) {
      const ScheduleConfig config{.kind = kind, .pp = pp, .microbatches = microbatches};
      add("make", make, config);
      add("lower_and_verify", lower_and_verify, config);
      add("simulate", simulate_messages, config);
    }
  }
  for (const ScheduleKind kind : {ScheduleKind::k1F1B, ScheduleKind::kZBVZeroBubble}) {
    add("simulate_compute", simulate_compute, {.kind = kind, .pp = 1024, .microbatches = 1024});
  }
  return true;
}

const bool kAdded = add_all();

}  // namespace
}  // namespace tessera
