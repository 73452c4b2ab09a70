#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"
#include "tessera/plan/plan.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// A pipeline stage: consecutive units of a model.
struct ModelStage {
  int64_t index = 0;             // Among the stages of the pipeline.
  int64_t first_unit = 0;        // Index of its first unit in the model.
  std::vector<Unit> units = {};  // In the order of the model.

  /// The parameters of all its units.
  Parameters parameters() const { return parameters_of(units); }
};

/// The stages that a rank of a pipeline runs. Local.
std::vector<ModelStage> build_stages(const Model& model, const Schedule& schedule, GroupRank rank);

/// Sets for each parameter which part the rank holds by a train_plan(), and which ranks hold the
/// others. Takes experts of other ranks off the lists.
void place_parameters(std::vector<ModelStage>& stages, const Model& model, const Plan& plan,
                      GlobalRank rank);

/// The parameters for an optimizer of these stages. Tied parameters, which have one name, are
/// listed once.
Parameters trained_parameters(const std::vector<ModelStage>& stages);

}  // namespace tessera
