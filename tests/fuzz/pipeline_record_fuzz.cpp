// Any text: either refused by DataError, or a record that survives being written and read again;
// and what makes a step can be measured, simulated and drawn.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/draw/timeline_svg.h"
#include "tessera/draw/timeline_terminal.h"
#include "tessera/format/pipeline_record.h"
#include "tessera/schedule/measure.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::PipelineRecord record = tessera::parse_pipeline_record(text, "fuzz");
    if (tessera::parse_pipeline_record(tessera::to_json(record), "again") != record) std::abort();
    const tessera::RecordedStep step = tessera::join_records({record});
    tessera::simulate(step.schedule, tessera::measure_costs(step.schedule, step.simulation));
    const tessera::Timeline timeline(step.schedule, step.simulation);
    tessera::draw_terminal({&timeline, 1}, {.width = 80});
    tessera::draw_svg({&timeline, 1}, "fuzz", "");
  } catch (const tessera::DataError&) {
  }
  return 0;
}
