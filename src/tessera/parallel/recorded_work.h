#pragma once

#include <utility>

#include "tessera/comm/work.h"
#include "tessera/parallel/unit_recorder.h"

namespace tessera TSR_API {

/// A Work or ListWork that a unit waits for. In a recorded step the record shows how long it was in
/// flight, and for how long wait() blocked.
template <class Operation>
class RecordedWork {
 public:
  RecordedWork(Operation operation, const UnitLog& log, UnitAction action)
      : operation_(std::move(operation)), log_(log), flight_(log.begin(action)) {
    if (log.is_recording()) operation_.on_complete([flight = flight_] { flight.end(); });
  }

  /// Like wait() of the operation.
  auto wait() && {
    const UnitSpan waiting = log_.begin(UnitAction::kWait);
    auto result = std::move(operation_).wait();
    waiting.end();
    flight_.end();
    return result;
  }

 private:
  Operation operation_;
  UnitLog log_;
  UnitSpan flight_;
};

}  // namespace tessera
