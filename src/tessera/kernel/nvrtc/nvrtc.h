#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/kernel/gpu_kernel.h"

namespace tessera::kernel::detail {

/// Whether kernels can be compiled for such a device.
bool is_gpu(at::Device device);

/// What such a device can do. Nothing for others.
std::optional<GpuCapability> capability(at::Device device);

/// CUDA C++ that each kernel begins with: integers of all sizes, the types bf16, fp16 and fp8, and
/// their conversions from and to float, which round to the nearest and ties to even.
const char* conversions();

/// Compiles CUDA C++ for a GPU. StateError with the compiler's words if it refuses, or if there is
/// no compiler.
void* compile(at::Device device, const std::string& name, const std::string& source,
              const std::string& flags);

/// Starts a compiled kernel on the current stream of the GPU.
void start(at::Device device, const char* name, void* function, int64_t blocks, int64_t threads,
           void** arguments);

}  // namespace tessera::kernel::detail
