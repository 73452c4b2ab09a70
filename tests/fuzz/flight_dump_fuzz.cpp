// Any text: either refused by DataError, or a dump that survives being written and read again.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/format/flight_dump.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::FlightDump dump = tessera::parse_flight_dump(text, "fuzz");
    if (tessera::parse_flight_dump(tessera::to_json(dump), "again") != dump) std::abort();
  } catch (const tessera::DataError&) {
  }
  return 0;
}
