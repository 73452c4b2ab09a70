#pragma once

#include <c10/core/TensorOptions.h>

#include <cstdlib>

namespace tessera::testkit {

/// Where tests put their tensors: the CPU, or what TESSERA_TEST_DEVICE says. tests/gpu.sh asks for
/// cuda.
inline c10::Device device() {
  const char* const name = std::getenv("TESSERA_TEST_DEVICE");
  return c10::Device(name == nullptr ? "cpu" : name);
}

/// The options of a tensor there.
inline c10::TensorOptions here() {
  return c10::TensorOptions().device(device());
}
inline c10::TensorOptions here(c10::ScalarType dtype) {
  return here().dtype(dtype);
}

}  // namespace tessera::testkit
