#include "tessera/train/model_stage.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/base/text.h"

namespace tessera {
namespace {

bool is_copy(const std::string& name, int64_t unit, const Model& model) {
  return std::ranges::any_of(model.tied, [&](const TiedParameter& tied) {
    return tied.name == name && tied.second == unit;
  });
}

// One buffer per dtype, one for experts, and one for what is not trained: it has no gradients to
// reduce. Tied parameters have buffers of their own, so that all copies are cut alike; so has what
// tensor parallelism does not cut, since the rest may have another size on each of its ranks.
std::string buffer_of(const Parameter& parameter, const Model& model, bool tensor) {
  const bool tied =
      std::ranges::find(model.tied, parameter.name, &TiedParameter::name) != model.tied.end();
  const bool copied = tensor && (!parameter.tensor_dim || parameter.tensor_blocks);
  return concat(parameter.expert ? "experts, " : "", parameter.tensor.scalar_type(),
                parameter.tensor.requires_grad() ? "" : " frozen", tied ? " " + parameter.name : "",
                copied ? concat(" of ", parameter.tensor_blocks.value_or(1)) : "");
}

std::map<std::string, std::vector<Parameter*>> by_buffer(Unit& unit, const Model& model,
                                                         const Plan& plan) {
  const bool tensor = plan.layout("world").axis("tp").size() > 1;
  std::map<std::string, std::vector<Parameter*>> buffers;
  for (Parameter& parameter : unit.parameters) {
    buffers[buffer_of(parameter, model, tensor)].push_back(&parameter);
  }
  return buffers;
}

}  // namespace

std::vector<ModelStage> build_stages(const Model& model, const Schedule& schedule, GroupRank rank) {
  const std::vector<Span> units = stage_units(model, schedule.num_stages());
  std::vector<ModelStage> stages;
  for (const int64_t index : schedule.stages_of(rank)) {
    const Span own = units[static_cast<size_t>(index)];
    stages.push_back({.index = index, .first_unit = own.begin, .units = model.build(own)});
  }
  return stages;
}

void place_parameters(std::vector<ModelStage>& stages, const Model& model, const Plan& plan,
                      GlobalRank rank) {
  for (ModelStage& stage : stages) {
    for (size_t i = 0; i < stage.units.size(); ++i) {
      const int64_t unit = stage.first_unit + static_cast<int64_t>(i);
      std::erase_if(stage.units[i].parameters, [&](const Parameter& p) {
        return p.expert && !holds_expert(plan, rank, *p.expert);
      });
      for (const auto& [buffer, parameters] : by_buffer(stage.units[i], model, plan)) {
        std::vector<ParameterShape> shapes;
        for (const Parameter* const p : parameters) {
          shapes.push_back({p->place.part.shape(), p->tensor_dim, p->tensor_blocks, p->expert,
                            is_copy(p->name, unit, model)});
        }
        const std::vector<ParameterPlace> places = place_buffer(plan, rank, shapes);
        for (size_t j = 0; j < places.size(); ++j) {
          parameters[j]->place = places[j];
          parameters[j]->place.buffer = buffer;
        }
      }
    }
  }
}

Parameters trained_parameters(const std::vector<ModelStage>& stages) {
  Parameters all;
  for (const ModelStage& stage : stages) {
    for (Parameter& parameter : stage.parameters()) {
      const bool known = std::ranges::find(all, parameter.name, &Parameter::name) != all.end();
      if (!known) all.push_back(std::move(parameter));
    }
  }
  return all;
}

}  // namespace tessera
