#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"

namespace c10 {
struct Event;
}

namespace tessera TSR_API {

/// Numbers on their way to the host. The copy begins at once; what the device gets to do later does
/// not delay it.
class HostNumbers {
 public:
  /// `numbers` have one dimension. Whoever waits for them watches the ranks of this group's world.
  HostNumbers(const at::Tensor& numbers, Group group);
  HostNumbers(const HostNumbers&) = delete;
  HostNumbers& operator=(const HostNumbers&) = delete;
  HostNumbers(HostNumbers&&) noexcept;
  HostNumbers& operator=(HostNumbers&&) noexcept;
  ~HostNumbers();

  /// Waits for the numbers. CommError that says what was waited for (`what`), and names a rank if
  /// it is lost meanwhile, since the device may wait for it.
  std::vector<double> wait(std::string_view what) const;

 private:
  Group group_;
  at::Tensor numbers_;                   // On the CPU, of float64.
  std::unique_ptr<c10::Event> arrived_;  // Null on a CPU, where nothing is under way.
};

}  // namespace tessera
