#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/mesh/realize.h"
#include "tessera/schedule/schedule.h"
#include "tessera/train/model_stage.h"

namespace tessera TSR_API {

/// Keeps parameters equal that units of different stages share.
///
/// If one rank has both, they share memory from now on. Otherwise both ranks hold a copy, and the
/// gradients of the copies are summed, so that equal updates keep them equal.
class TiedParameters {
 public:
  /// Local. `stages` are those of this rank and have their values. ConfigError for parameters tied
  /// between other ranks than the first and the last of a pipeline.
  TiedParameters(const Model& model, const std::vector<ModelStage>& stages,
                 const Schedule& schedule, const RealizedPlan& plan);

  /// **Collective.** Sums the gradients of the copies.
  void add_gradients() const;

 private:
  struct Tie {
    at::Tensor first;               // Undefined if this rank does not have it.
    at::Tensor second;              // Undefined if this rank does not have it.
    std::vector<Group> group = {};  // The group of the two ranks, if they differ.
  };
  std::vector<Tie> ties_ = {};
};

}  // namespace tessera
