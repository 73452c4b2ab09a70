#pragma once

#include <vector>

#include "tessera/schedule/schedule.h"

namespace tessera::schedule::detail {

/// A value for every stage and microbatch, in one flat array.
template <class T>
class StageGrid {
 public:
  StageGrid(const ScheduleShape& shape, T initial)
      : microbatches_(static_cast<size_t>(shape.microbatches)),
        values_(static_cast<size_t>(shape.num_stages) * microbatches_, initial) {}

  T& operator()(int32_t stage, int32_t microbatch) {
    return values_[static_cast<size_t>(stage) * microbatches_ + static_cast<size_t>(microbatch)];
  }

 private:
  size_t microbatches_;
  std::vector<T> values_;
};

}  // namespace tessera::schedule::detail
