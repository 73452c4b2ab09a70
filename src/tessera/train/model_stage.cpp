#include "tessera/train/model_stage.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

bool is_copy(const std::string& name, int64_t unit, const Model& model) {
  return std::ranges::any_of(model.tied, [&](const TiedParameter& tied) {
    return tied.name == name && tied.second == unit;
  });
}

}  // namespace

Parameters ModelStage::parameters() const {
  Parameters all;
  for (const Unit& unit : units) {
    all.insert(all.end(), unit.parameters.begin(), unit.parameters.end());
  }
  return all;
}

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
      Parameters& parameters = stage.units[i].parameters;
      std::vector<ParameterShape> shapes;
      for (const Parameter& p : parameters) {
        shapes.push_back({p.place.part.shape(), p.tensor_dim, is_copy(p.name, unit, model)});
      }
      const std::vector<ParameterPlace> places = place_unit(plan, rank, shapes);
      for (size_t j = 0; j < places.size(); ++j) parameters[j].place = places[j];
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
