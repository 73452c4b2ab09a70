#include "tessera/parallel/fsdp/internal/unit_order.h"

#include <algorithm>
#include <utility>

namespace tessera::fsdp::detail {

std::optional<size_t> UnitOrder::next(size_t unit, bool records) {
  if (records) current_.push_back(unit);
  if (position_ >= last_.size() || last_[position_] != unit) {
    position_ = static_cast<size_t>(std::ranges::find(last_, unit) - last_.begin());
  }
  if (position_ < last_.size()) ++position_;
  return position_ < last_.size() ? std::optional(last_[position_]) : std::nullopt;
}

void UnitOrder::end_step() {
  last_ = std::exchange(current_, {});
  position_ = 0;
}

}  // namespace tessera::fsdp::detail
