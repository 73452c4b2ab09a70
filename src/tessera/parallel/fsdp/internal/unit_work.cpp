#include "tessera/parallel/fsdp/internal/unit_work.h"

#include <utility>

namespace tessera::fsdp::detail {

UnitWork::UnitWork(Work work, const UnitLog& log, UnitAction action)
    : work_(std::move(work)), log_(log), flight_(log.begin(action)) {
  if (log.is_recording()) work_.on_complete([flight = flight_] { flight.end(); });
}

at::Tensor UnitWork::wait() && {
  const UnitSpan waiting = log_.begin(UnitAction::kWait);
  at::Tensor result = std::move(work_).wait();
  waiting.end();
  flight_.end();
  return result;
}

}  // namespace tessera::fsdp::detail
