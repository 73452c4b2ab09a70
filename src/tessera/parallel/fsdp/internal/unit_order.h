#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tessera::fsdp::detail {

/// The order in which a module runs its units is not known beforehand: that of the last step
/// predicts this one's.
class UnitOrder {
 public:
  /// A pass goes on to this unit. Returns the unit that probably follows. A pass that is not
  /// recorded, e.g. one without gradients, belongs to no step.
  std::optional<size_t> next(size_t unit, bool records = true);
  /// The passes recorded since the last call belong to one step, which has ended.
  void end_step();

 private:
  std::vector<size_t> last_ = {};     // Of the last step.
  std::vector<size_t> current_ = {};  // Of this step so far.
  size_t position_ = 0;               // In last_, behind the unit that runs.
};

}  // namespace tessera::fsdp::detail
