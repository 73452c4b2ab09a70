#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// The two formats of tables in files.
enum class CsvFormat {
  kComputeOnly,  // To be lowered after loading; an empty cell is an idle slot.
  kComms,        // Executed as it stands; no empty cells.
};

struct CsvOptions {
  CsvFormat format = CsvFormat::kComputeOnly;
  std::optional<ScheduleShape> shape = std::nullopt;  // Found from the table where it is not given.
  SendMode sends = SendMode::kRendezvous;
};

/// One line a rank, cells in the text form of actions, separated by commas. DataError names origin,
/// row, column (both from 0) and rule of what is no table; the table is not verified yet.
Schedule parse_schedule_csv(std::string_view text, std::string_view origin,
                            const CsvOptions& options = {});

/// The same, the other way; lines end with CRLF as the peer writes them. ConfigError where the
/// table is not of the format.
std::string to_csv(const Schedule& schedule, CsvFormat format);

}  // namespace tessera
