// Any text: either refused by DataError, or a dump that survives being written and read again, and
// that can be analysed and drawn.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/draw/flight_trace.h"
#include "tessera/format/flight_analysis.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::FlightDump dump = tessera::parse_flight_dump(text, "fuzz");
    std::ostringstream trace;
    tessera::write_flight_trace({&dump, 1}, trace);
    if (tessera::analyse_flight({&dump, 1}).ranks.size() != 1) std::abort();
    if (tessera::parse_flight_dump(tessera::to_json(dump), "again") != dump) std::abort();
  } catch (const tessera::DataError&) {
  }
  return 0;
}
