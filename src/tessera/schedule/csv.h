#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"

namespace tessera TSR_API {

/// The two file formats of tables.
enum class CsvFormat {
  kComputeOnly,  // Not lowered yet; an empty cell is an idle slot.
  kComms,        // Executed as written; no empty cells.
};

/// How a table is written or read.
struct CsvOptions {
  CsvFormat format = CsvFormat::kComputeOnly;         // DataError for a table that breaks it.
  std::optional<ScheduleShape> shape = std::nullopt;  // Default: inferred from the table.
  SendMode sends = SendMode::kRendezvous;             // Of the schedule; not in the file.
};

/// Parses one line per rank, of actions in text form separated by commas. DataError with origin,
/// row, column (both from 0) and rule for invalid tables; does not verify the table.
Schedule parse_schedule_csv(std::string_view text, std::string_view origin,
                            const CsvOptions& options = {});

/// The inverse; lines end with CRLF, as PyTorch writes them. ConfigError if the table does not have
/// the format.
std::string to_csv(const Schedule& schedule, CsvFormat format);

}  // namespace tessera
