#include "tessera/schedule/alternatives.h"

#include <algorithm>
#include <array>

#include "tessera/base/error.h"
#include "tessera/schedule/choose.h"
#include "tessera/schedule/kind.h"
#include "tessera/schedule/measure.h"

namespace tessera {
namespace {

using enum ScheduleKind;
constexpr std::array kKinds{
    kGPipe, k1F1B, kInterleaved1F1B, kLoopedBFS, kInterleavedZeroBubble, kZBVZeroBubble, kDualPipeV,
    kZBH1,  kZBH2, kVHalf,           kVMin};

// Nothing if the sizes break a rule of the kind.
std::optional<Schedule> choose_if_possible(const ScheduleChoice& choice) {
  try {
    return choose_schedule(choice);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
}

class Trying {
 public:
  Trying(const Schedule& present, const Costs& costs, std::optional<int64_t> memory_limit)
      : present_(present),
        costs_(costs),
        now_(simulate(present, costs)),
        memory_(peak_activations(now_)),
        limit_(memory_limit) {}

  std::vector<Alternative> try_all() && {
    const int64_t stages = present_.num_stages() / present_.pp();
    for (const ScheduleKind kind : kKinds) {
      try_one(kind, is_single_stage(kind) ? 1 : std::max<int64_t>(stages, 2), limit_);
    }
    const int64_t memory = limit_.value_or(memory_);
    try_one(kAuto, stages, memory);
    if (stages == 1) try_one(kAuto, 2, memory);
    std::ranges::stable_sort(found_, {}, &Alternative::time);
    return std::move(found_);
  }

 private:
  // `limit` is in activations of the present schedule, whose stages may be larger.
  void try_one(ScheduleKind kind, int64_t stages, std::optional<int64_t> limit) {
    const int64_t num_stages = stages * present_.pp();
    if (to_string(kind) == present_.name() && num_stages == present_.num_stages()) return;
    const Costs costs = recut(costs_, present_.num_stages(), num_stages);
    if (limit) limit = *limit * num_stages / present_.num_stages();
    auto schedule = choose_if_possible({.word = std::string(to_string(kind)),
                                        .pp = present_.pp(),
                                        .microbatches = present_.microbatches(),
                                        .stages_per_rank = stages,
                                        .costs = costs,
                                        .memory_limit = limit});
    if (schedule) add(*std::move(schedule), costs);
  }

  void add(Schedule schedule, const Costs& costs) {
    Simulation simulation = simulate(schedule, costs);
    const double time = now_.makespan > 0 ? simulation.makespan / now_.makespan : 1;
    const auto share = [](int64_t peak, const Schedule& of) {
      return static_cast<double>(peak) / static_cast<double>(of.num_stages());
    };
    const double memory = share(peak_activations(simulation), schedule) / share(memory_, present_);
    found_.push_back({std::move(schedule), std::move(simulation), time, memory});
  }

  const Schedule& present_;
  const Costs& costs_;
  Simulation now_;
  int64_t memory_;  // Peak activations over its ranks.
  std::optional<int64_t> limit_;
  std::vector<Alternative> found_;
};

}  // namespace

std::vector<Alternative> alternatives(const Schedule& present, const Costs& costs,
                                      std::optional<int64_t> memory_limit) {
  return Trying(present, costs, memory_limit).try_all();
}

}  // namespace tessera
