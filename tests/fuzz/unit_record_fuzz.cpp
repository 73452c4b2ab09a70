// Any text: either refused by DataError, or a record that survives being written and read again,
// and that can be drawn.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/draw/unit_timeline.h"
#include "tessera/format/unit_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::UnitRecord record = tessera::parse_unit_record(text, "fuzz");
    if (tessera::parse_unit_record(tessera::to_json(record), "again") != record) std::abort();
    const tessera::CommunicationTimes times = tessera::communication_times(record);
    const double most = times.step * (1 + 1e-9);  // Sums are rounded.
    if (times.in_flight > most || times.waited > most) std::abort();
    const tessera::UnitTimeline timeline = tessera::unit_timeline(record);
    tessera::draw_terminal(timeline, {.width = 80});
    tessera::draw_svg(timeline, "fuzz", "");
    std::ostringstream trace;
    tessera::write_unit_trace({&record, 1}, trace);
  } catch (const tessera::DataError&) {
  }
  return 0;
}
