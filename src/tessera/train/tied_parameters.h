#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/mesh/realize.h"
#include "tessera/schedule/schedule.h"
#include "tessera/train/model_stage.h"

namespace tessera TSR_API {

/// Keeps parameters that units of different stages share equal.
///
/// If one rank has both, they share their memory from here on. Otherwise both ranks hold a copy and
/// their gradients are added up, so that equal updates keep them equal.
class TiedParameters {
 public:
  /// Local. `stages` are those of this rank and have their values. ConfigError for parameters tied
  /// between other ranks than the first and the last of a pipeline.
  TiedParameters(const Model& model, const std::vector<ModelStage>& stages,
                 const Schedule& schedule, const RealizedPlan& plan);

  /// **Collective.** Adds up the gradients of copies.
  void add_gradients() const;

 private:
  struct Tie {
    at::Tensor first;  // Undefined if this rank does not have it,
    at::Tensor second;
    std::vector<Group> group = {};  // The two ranks, if they are two.
  };
  std::vector<Tie> ties_ = {};
};

}  // namespace tessera
