#include "tessera/parallel/fsdp/internal/unit_order.h"

#include <algorithm>
#include <utility>

namespace tessera::fsdp::detail {

std::optional<size_t> UnitOrder::forward(size_t unit, bool records) {
  if (records) {
    current_.push_back(unit);
    behind_ = current_.size();
  }
  if (position_ >= last_.size() || last_[position_] != unit) {
    position_ = static_cast<size_t>(std::ranges::find(last_, unit) - last_.begin());
  }
  if (position_ < last_.size()) ++position_;
  return position_ < last_.size() ? std::optional(last_[position_]) : std::nullopt;
}

std::optional<size_t> UnitOrder::backward(size_t unit) {
  while (behind_ > 0 && current_[behind_ - 1] != unit) --behind_;
  if (behind_ > 0) --behind_;
  return behind_ > 0 ? std::optional(current_[behind_ - 1]) : std::nullopt;
}

void UnitOrder::end_step() {
  if (!current_.empty()) last_ = std::exchange(current_, {});
  position_ = 0;
  behind_ = 0;
}

}  // namespace tessera::fsdp::detail
