#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/schedule/schedule.h"
#include "tessera/schedule/simulate.h"

namespace tessera TSR_API {

/// A schedule as users name it: by one word and its sizes.
struct ScheduleChoice {
  std::string word = "1f1b";  // A kind, in any case, or a file whose name ends in ".csv".
  int64_t pp = 1;
  int64_t microbatches = 1;
  int64_t stages_per_rank = 0;                         // 0: as the kind has them, or the file.
  Costs costs = {};                                    // What a searched kind is searched for.
  std::optional<int64_t> memory_limit = std::nullopt;  // Activations that a rank may hold.
};

/// Whether the word names a file.
bool names_table(std::string_view word);

/// The schedule, verified. ConfigError for a word that is neither, sizes that the kind refuses or
/// that are not the file's, and tables too large to work with; DataError for what is wrong in a
/// file.
Schedule choose_schedule(const ScheduleChoice& choice);

/// The table of a file, with messages or without, verified: where it would deadlock with sends that
/// wait for their receives, with posted ones.
Schedule read_schedule(const std::string& path);

/// Where a table comes from: a file or a run has it already, a kind makes it with its idle slots,
/// and a search makes many.
enum class TableOrigin { kGiven, kMade, kSearched };

/// ConfigError where the table would have more stages × microbatches, or idle slots, than memory or
/// patience allow.
void check_table_size(const ScheduleShape& shape, TableOrigin origin);

}  // namespace tessera
