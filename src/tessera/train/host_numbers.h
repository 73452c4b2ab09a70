#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

namespace c10 {
struct Event;
}

namespace tessera TSR_API {

/// Float64 scalars of one device on their way to the host. The copy begins at once; what the device
/// gets to do later does not delay it.
class HostNumbers {
 public:
  /// Whoever waits for the numbers watches the ranks of this group's world.
  HostNumbers(at::TensorList scalars, Group group);
  HostNumbers(const HostNumbers&) = delete;
  HostNumbers& operator=(const HostNumbers&) = delete;
  HostNumbers(HostNumbers&&) noexcept;
  HostNumbers& operator=(HostNumbers&&) noexcept;
  ~HostNumbers();

  /// Waits for the numbers, which are in the order given. CommError that names a rank if it is lost
  /// meanwhile, since the device may wait for it.
  double operator[](int64_t index) const;

 private:
  Group group_;
  at::Tensor numbers_;                   // On the CPU.
  std::unique_ptr<c10::Event> arrived_;  // Null on a CPU, where nothing is under way.
};

}  // namespace tessera
