#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/comm/work.h"
#include "tessera/parallel/unit_recorder.h"

namespace tessera::fsdp::detail {

/// A gather or reduction of a unit in flight. In a recorded step the record shows it, and for how
/// long wait() blocked.
class UnitWork {
 public:
  UnitWork(Work work, const UnitLog& log, UnitAction action);

  at::Tensor wait() &&;

 private:
  Work work_;
  UnitLog log_;
  UnitSpan flight_;
};

}  // namespace tessera::fsdp::detail
