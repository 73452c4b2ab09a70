#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "tessera/schedule/simulate.h"

namespace tessera::cli {

/// The flags of `tessera schedule`.
struct ScheduleFlags {
  std::optional<std::string> kind, csv_in, from_trace;
  std::vector<std::string> compare;
  std::optional<int64_t> pp, microbatches, stages_per_rank, memory_limit, step, rank;
  Costs costs;
  bool times_given = false;
  bool same_work = false;
  bool units = false;  // Show the units of the recorded step, not its pipeline.
  std::optional<std::string> svg, html, trace, csv;  // Files; "-" is stdout.
  bool json = false;
  std::string color = "auto";

  bool is_example() const;
  bool uses_stdout() const;
  /// The kinds given, each once, in order; 1f1b if nothing else is given.
  std::vector<std::string> kinds() const;
};

void add_schedule_flags(CLI::App& app, ScheduleFlags& flags);

/// ConfigError if the flags cannot be combined.
void check_together(const ScheduleFlags& flags);

}  // namespace tessera::cli
