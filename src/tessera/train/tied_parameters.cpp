#include "tessera/train/tied_parameters.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"

namespace tessera {
namespace {

int64_t stage_with(int64_t unit, const std::vector<Span>& stages) {
  const auto at = std::ranges::find_if(stages, [&](const Span& s) { return unit < s.end; });
  return at - stages.begin();
}

// Undefined if none of this rank's stages is `index`.
at::Tensor find(const std::string& name, int64_t index, const std::vector<ModelStage>& stages) {
  for (const ModelStage& stage : stages) {
    if (stage.index != index) continue;
    for (const Unit& unit : stage.units) {
      const auto at = std::ranges::find(unit.parameters, name, &Parameter::name);
      if (at != unit.parameters.end()) return at->tensor;
    }
  }
  return {};
}

void check_ends(const std::string& name, GroupRank first, GroupRank second, const Group& pp) {
  const auto [low, high] = std::minmax(first.value, second.value);
  TSR_CHECK(low == 0 && high == pp.size() - 1, "parameter '", name, "' is tied between ranks ", low,
            " and ", high, " of a pipeline of ", pp.size(),
            "; put the units that share it on the first and the last rank, or on one rank");
}

}  // namespace

TiedParameters::TiedParameters(const Model& model, const std::vector<ModelStage>& stages,
                               const Schedule& schedule, const RealizedPlan& plan) {
  const std::vector<Span> units = stage_units(model, schedule.num_stages());
  for (const TiedParameter& tied : model.tied) {
    const int64_t first = stage_with(tied.first, units);
    const int64_t second = stage_with(tied.second, units);
    if (first == second) continue;  // Already one tensor.
    Tie tie{.first = find(tied.name, first, stages), .second = find(tied.name, second, stages)};
    const GroupRank first_rank = schedule.rank_of(first);
    const GroupRank second_rank = schedule.rank_of(second);
    if (first_rank == second_rank) {
      if (tie.second.defined()) tie.second.set_data(tie.first);
    } else {
      check_ends(tied.name, first_rank, second_rank, plan.group("pp"));
      if (const Group* const group = plan.find("embedding")) tie.group.push_back(*group);
    }
    ties_.push_back(std::move(tie));
  }
}

void TiedParameters::add_gradients() const {
  const at::NoGradGuard no_grad;
  for (const auto& [first, second, group] : ties_) {
    if (!group.empty()) {
      all_reduce((first.defined() ? first : second).grad(), group.front()).wait();
    } else if (second.defined()) {
      first.grad().add_(second.grad());
      second.mutable_grad().reset();
    }
  }
}

}  // namespace tessera
