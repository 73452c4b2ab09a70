#pragma once

#include <c10/core/TensorOptions.h>

#include <cstdlib>

namespace tessera::testkit {

/// The device for tensors in tests: the CPU, or TESSERA_TEST_DEVICE, which tests/gpu.sh sets to
/// cuda.
inline c10::Device device() {
  const char* const name = std::getenv("TESSERA_TEST_DEVICE");
  return c10::Device(name == nullptr ? "cpu" : name);
}

/// Tensor options with that device.
inline c10::TensorOptions here() {
  return c10::TensorOptions().device(device());
}
inline c10::TensorOptions here(c10::ScalarType dtype) {
  return here().dtype(dtype);
}

}  // namespace tessera::testkit
