#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/draw/trace_json.h"
#include "tessera/format/flight_dump.h"

namespace tessera TSR_API {

/// What one rank did in some steps. Times are nanoseconds since the epoch, on the host's clock.
struct StepTrace {
  /// An operator that ran on a thread.
  struct Operator {
    std::string name;    // LibTorch's, e.g. "aten::mm".
    int64_t thread = 0;  // From 0.
    TimeRange time;      // From call to return.
  };
  /// The memory of a device after an allocation or a release.
  struct Memory {
    std::string device;  // "cpu", "cuda:0".
    int64_t at_ns = 0;   // When the amount changed.
    int64_t bytes = 0;   // Of all tensors on the device.
  };
  /// A recorded step.
  struct Step {
    int64_t step = 0;  // Of the run, from 0.
    TimeRange time;    // With the validation after it, if any.
  };

  int64_t rank = 0;                      // Global rank.
  int64_t start_ns = 0;                  // The zero of the trace, the same on all ranks.
  std::vector<Step> steps = {};          // In the order in which they ran.
  std::vector<Operator> operators = {};  // Nested or disjoint within a thread.
  std::vector<Memory> memory = {};       // One entry per change.
  FlightDump communication = {};         // Operations outside the steps are not drawn.
};

/// Writes a trace for Perfetto: a process with a row for the steps, one per thread for operators,
/// one per group for communication, and a counter per device for memory.
void write_step_trace(const StepTrace& trace, std::ostream& out);

}  // namespace tessera
