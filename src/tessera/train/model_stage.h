#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"
#include "tessera/plan/plan.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// A stage of a pipeline: consecutive units of a model.
struct ModelStage {
  int64_t index = 0;
  int64_t first_unit = 0;  // Its number in the model.
  std::vector<Unit> units = {};

  /// Those of all its units.
  Parameters parameters() const;
};

/// The stages that a rank of a pipeline runs. Local.
std::vector<ModelStage> build_stages(const Model& model, const Schedule& schedule, GroupRank rank);

/// Each parameter learns which part of it a rank holds by a train_plan(), and who holds the others.
void place_parameters(std::vector<ModelStage>& stages, const Model& model, const Plan& plan,
                      GlobalRank rank);

/// What an optimizer of these stages updates: of parameters with one name, which are tied, the
/// first.
Parameters trained_parameters(const std::vector<ModelStage>& stages);

}  // namespace tessera
