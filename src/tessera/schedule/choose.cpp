#include "tessera/schedule/choose.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/base/read_file.h"
#include "tessera/schedule/csv.h"
#include "tessera/schedule/search.h"
#include "tessera/schedule/verify.h"

namespace tessera {
namespace {

constexpr int64_t kLargestTable = 1 << 22;   // Stages × microbatches; up to a gigabyte.
constexpr int64_t kMostIdle = 1 << 22;       // Ranks × stages; a few hundred megabytes.
constexpr int64_t kLargestSearch = 1 << 17;  // Stages × microbatches; about ten seconds.
constexpr size_t kLargestCsv = 256U << 20;   // Bytes.

bool holds_messages(std::string_view csv) {
  return std::ranges::any_of(std::array{"SEND", "RECV", "SHARD", "REDUCE"}, [&](const char* word) {
    return csv.find(word) != std::string_view::npos;
  });
}

Schedule parse_table(const std::string& text, const std::string& path, SendMode sends) {
  const CsvFormat format = holds_messages(text) ? CsvFormat::kComms : CsvFormat::kComputeOnly;
  return parse_schedule_csv(text, path, {.format = format, .shape = {}, .sends = sends});
}

// The error of `verify`; "" if there is none.
std::string refusal_of(const Schedule& schedule) {
  try {
    verify(schedule);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

void check_sizes(const ScheduleChoice& choice, const Schedule& table) {
  const auto check = [&](const char* what, int64_t wanted, int64_t is) {
    TSR_CHECK(wanted == is, choice.word, " is a table of ", is, " ", what, ", not ", wanted,
              "; use ", is, " or choose another table");
  };
  check("ranks", choice.pp, table.pp());
  check("microbatches", choice.microbatches, table.microbatches());
  const int64_t stages = table.num_stages() / table.pp();
  if (choice.stages_per_rank != 0) check("stages per rank", choice.stages_per_rank, stages);
}

// read_file() refuses what has no size.
void check_file_size(const std::string& path) {
  std::error_code none;
  const uintmax_t size = std::filesystem::file_size(path, none);
  if (none || size <= kLargestCsv) return;
  throw DataError(concat(path, " has ", with_thousands(static_cast<int64_t>(size)),
                         " bytes; a schedule table may have at most ",
                         with_thousands(kLargestCsv)));
}

}  // namespace

bool names_table(std::string_view word) {
  return to_lower(word).ends_with(".csv");
}

void check_table_size(const ScheduleShape& shape, TableOrigin origin) {
  const bool searched = origin == TableOrigin::kSearched;
  const int64_t size =
      checked_multiply(shape.num_stages, shape.microbatches, "stages × microbatches");
  const int64_t most = searched ? kLargestSearch : kLargestTable;
  TSR_CHECK(size <= most, "a table of ", shape.num_stages, " stages and ", shape.microbatches,
            " microbatches is too large to ", searched ? "search" : "generate",
            "; their product may be at most ", most);
  if (origin == TableOrigin::kGiven) return;
  // While the first and the last stage wait for each other, every rank has idle slots.
  TSR_CHECK(checked_multiply(shape.pp, shape.num_stages, "ranks × stages") <= kMostIdle,
            "a table of ", shape.pp, " ranks (--pp) and ", shape.num_stages,
            " stages is too large to generate; their product may be at most ", kMostIdle);
}

Schedule read_schedule(const std::string& path) {
  check_file_size(path);
  const std::string text = read_file(path, kLargestCsv);
  Schedule waiting = parse_table(text, path, SendMode::kRendezvous);
  check_table_size(waiting.shape(), TableOrigin::kGiven);
  const std::string refusal = refusal_of(waiting);
  if (refusal.empty()) return waiting;
  Schedule posted = parse_table(text, path, SendMode::kPosted);
  if (refusal_of(posted).empty()) return posted;
  throw DataError(concat(path, ": ", refusal));
}

Schedule choose_schedule(const ScheduleChoice& choice) {
  if (names_table(choice.word)) {
    Schedule table = read_schedule(choice.word);
    check_sizes(choice, table);
    return table;
  }
  const ScheduleKind kind = parse_schedule_kind(choice.word);
  const int64_t stages =
      choice.stages_per_rank == 0 ? default_stages_per_rank(kind) : choice.stages_per_rank;
  const ScheduleConfig config{kind, choice.pp, choice.microbatches, stages};
  if (is_generated(kind)) check_config(config);
  check_table_size({choice.pp, checked_multiply(choice.pp, stages, "stages"), choice.microbatches},
                   is_generated(kind) ? TableOrigin::kMade : TableOrigin::kSearched);
  Schedule schedule = make_schedule(config, choice.costs, choice.memory_limit);
  verify(schedule);
  return schedule;
}

}  // namespace tessera
