#pragma once

#include <memory>
#include <utility>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Gradient accumulation: during its lifetime, backward passes of what made it only add gradients
/// up. The next reduction sums what has accumulated.
class [[nodiscard]] NoSync {
 public:
  /// `count` is how many of them live.
  explicit NoSync(std::shared_ptr<int> count) : count_(std::move(count)) { ++*count_; }
  NoSync(NoSync&&) noexcept = default;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync() {
    if (count_) --*count_;
  }

 private:
  std::shared_ptr<int> count_;
};

}  // namespace tessera
