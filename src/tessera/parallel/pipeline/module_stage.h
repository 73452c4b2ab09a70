#pragma once

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/parallel/pipeline/stage.h"

namespace tessera TSR_API {

/// A torch::nn module, or a holder of one, as a stage with one input and one output tensor.
///
///   Pipeline pipeline({module_stage(0, torch::nn::Linear(8, 8))}, …);
template <class Module>
Stage module_stage(int64_t index, Module module) {
  return {.index = index, .forward = [module](const Tensors& inputs, const StagePass&) mutable {
            return Tensors{module->forward(inputs.at(0))};
          }};
}

}  // namespace tessera
