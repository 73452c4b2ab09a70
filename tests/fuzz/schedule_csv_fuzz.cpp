// Any text as a pipeline table: either refused, or a table that is written and read again as the
// same; and whatever verifies can be simulated and lowered.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/schedule/csv.h"
#include "tessera/schedule/lower.h"
#include "tessera/schedule/simulate.h"
#include "tessera/schedule/verify.h"

namespace {

void check(std::string_view text, tessera::CsvFormat format) {
  const tessera::CsvOptions options{.format = format};
  const auto schedule = tessera::parse_schedule_csv(text, "fuzz", options);
  const auto again =
      tessera::parse_schedule_csv(tessera::to_csv(schedule, format), "fuzz", options);
  if (again != schedule) std::abort();
  tessera::verify(schedule);
  tessera::simulate(schedule, {});
  if (schedule.is_compute_only()) tessera::verify(tessera::lower(schedule));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const auto format : {tessera::CsvFormat::kComputeOnly, tessera::CsvFormat::kComms}) {
    try {
      check(text, format);
    } catch (const tessera::DataError&) {
    } catch (const tessera::ConfigError&) {
    }
  }
  return 0;
}
