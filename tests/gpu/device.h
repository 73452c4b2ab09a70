// Where kernels run: on a GPU, or in the emulator.
#pragma once

#include <ATen/core/Tensor.h>

#ifdef TESSERA_EMULATOR_COMPILER
#include "tests/gpu/emulator/emulator.h"
#endif

namespace tessera {

#ifdef TESSERA_EMULATOR_COMPILER
inline constexpr at::DeviceType kGpu = at::kCPU;
// While it lives, layers on a CPU do not use kernels.
using WithoutKernels = emulator::Paused;
// The emulator is slow.
inline constexpr int64_t kManyRows = 20;
inline constexpr int64_t kRandomShapes = 25;
#else
inline constexpr at::DeviceType kGpu = at::kCUDA;
struct WithoutKernels {
  WithoutKernels() {}  // A CPU has none.
};
inline constexpr int64_t kManyRows = 600;
inline constexpr int64_t kRandomShapes = 400;
#endif

}  // namespace tessera
