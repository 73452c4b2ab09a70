#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "tessera/base/export.h"

namespace c10 {
struct Event;
}

namespace tessera TSR_API {

/// Float64 scalars of one device on their way to the host. The copy begins at once; what the device
/// gets to do later does not delay it.
class HostNumbers {
 public:
  explicit HostNumbers(at::TensorList scalars);
  HostNumbers(const HostNumbers&) = delete;
  HostNumbers& operator=(const HostNumbers&) = delete;
  HostNumbers(HostNumbers&&) noexcept;
  HostNumbers& operator=(HostNumbers&&) noexcept;
  ~HostNumbers();

  /// Waits for the numbers, which are in the order given.
  double operator[](int64_t index) const;

 private:
  at::Tensor numbers_;                   // On the CPU.
  std::unique_ptr<c10::Event> arrived_;  // Null on a CPU, where nothing is under way.
};

}  // namespace tessera
