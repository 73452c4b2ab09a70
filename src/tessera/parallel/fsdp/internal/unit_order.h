#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace tessera::fsdp::detail {

/// The order in which a module runs its units. It is not known beforehand: that of the last step
/// predicts the next forward pass, and a forward pass predicts its backward pass.
class UnitOrder {
 public:
  /// A forward pass goes on to this unit. Returns the unit that probably follows. `records`: a
  /// backward pass will follow.
  std::optional<size_t> forward(size_t unit, bool records);
  /// The same for a backward pass.
  std::optional<size_t> backward(size_t unit);
  /// The forward passes since the last call belong to one step, which has ended.
  void end_step();

 private:
  std::vector<size_t> last_ = {};     // Of the last step.
  std::vector<size_t> current_ = {};  // Of this step so far.
  size_t position_ = 0;               // In last_, behind the unit that runs.
  size_t behind_ = 0;                 // In current_: units from here on have run backward.
};

}  // namespace tessera::fsdp::detail
