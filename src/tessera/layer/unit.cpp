#include "tessera/layer/unit.h"

#include <utility>

#include "tessera/plan/split_points.h"

namespace tessera {

Parameters parameters_of(std::span<const Unit> units) {
  Parameters all;
  for (const Unit& unit : units) {
    all.insert(all.end(), unit.parameters.begin(), unit.parameters.end());
  }
  return all;
}

Model model_of(std::vector<Unit> units, ModelLoss loss) {
  const auto count = static_cast<int64_t>(units.size());
  const auto build = [units = std::move(units)](Span wanted) {
    return std::vector<Unit>(units.begin() + wanted.begin, units.begin() + wanted.end);
  };
  return {.num_units = count, .build = build, .loss = std::move(loss), .layers = {0, count}};
}

std::vector<Span> stage_units(const Model& model, int64_t num_stages) {
  std::vector<Span> stages;
  int64_t begin = 0;
  for (const int64_t point : even_split_points(model.layers.size(), num_stages)) {
    stages.push_back({begin, model.layers.begin + point});
    begin = stages.back().end;
  }
  stages.push_back({begin, model.num_units});
  return stages;
}

}  // namespace tessera
