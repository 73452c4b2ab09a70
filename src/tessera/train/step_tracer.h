#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// Records the operators, the communication and the memory of this rank in some steps, and writes
/// them as FOLDER/steps-A-B.rank-R.json for Perfetto. Other steps cost nothing.
class StepTracer {
 public:
  /// **Collective** over the world.
  StepTracer(Span steps, std::string folder, const Group& world);
  ~StepTracer();
  StepTracer(const StepTracer&) = delete;
  StepTracer& operator=(const StepTracer&) = delete;

  /// Before each step, on its thread: begins to record if the step is to be traced.
  void before_step(int64_t step);
  /// After each step, on the same thread: ends the recording, and writes the file after the last
  /// traced step. DataError if it cannot be written.
  void after_step(int64_t step);
  /// Whether the step is to be traced.
  bool traces(int64_t step) const { return steps_.begin <= step && step < steps_.end; }

 private:
  struct Recording;
  void write() const;

  Span steps_;
  std::string folder_;
  Group world_;
  std::unique_ptr<Recording> recording_;
};

}  // namespace tessera
