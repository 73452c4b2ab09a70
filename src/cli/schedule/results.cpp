#include "cli/schedule/results.h"

#include <iostream>
#include <sstream>

#include "cli/files.h"
#include "cli/terminal.h"
#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/draw/timeline_page.h"
#include "tessera/draw/timeline_svg.h"
#include "tessera/draw/timeline_trace.h"
#include "tessera/schedule/csv.h"

namespace tessera::cli {
namespace {

constexpr int64_t kLargestPicture = 20'000;   // Actions; keeps browsers fast.
constexpr int64_t kLargestTrace = 1'000'000;  // Actions; a few hundred megabytes.

int64_t actions_in(std::span<const Timeline> timelines) {
  int64_t actions = 0;
  for (const Timeline& timeline : timelines) actions += std::ssize(timeline.blocks());
  return actions;
}

void check_drawable(int64_t actions, const char* flag, int64_t most) {
  TSR_CHECK(actions <= most, with_thousands(actions), " actions are too many for ", flag,
            ", which shows up to ", with_thousands(most), "; choose fewer microbatches or ranks");
}

std::string trace_of(std::span<const Timeline> timelines) {
  std::ostringstream trace;
  write_timeline_trace(timelines, trace);
  return std::move(trace).str();
}

}  // namespace

void check_picture_size(int64_t actions, const char* flag) {
  check_drawable(actions, flag, kLargestPicture);
}

void check_trace_size(int64_t actions, const char* flag) {
  check_drawable(actions, flag, kLargestTrace);
}

std::vector<ScheduleFile> make_files(const ScheduleFlags& flags, const ScheduleDrawing& drawing) {
  const auto& [timelines, title, subtitle, table] = drawing;
  std::vector<ScheduleFile> files;
  if (flags.svg) {
    check_picture_size(actions_in(timelines), "--svg");
    files.push_back({"picture", *flags.svg, draw_svg(timelines, title, subtitle)});
  }
  if (flags.html) {
    check_picture_size(actions_in(timelines), "--html");
    files.push_back({"page", *flags.html, draw_page(timelines, title, subtitle)});
  }
  if (flags.trace) {
    check_trace_size(actions_in(timelines), "--trace");
    files.push_back({"trace (ui.perfetto.dev opens it)", *flags.trace, trace_of(timelines)});
  }
  if (flags.csv) {
    const auto format = table.is_compute_only() ? CsvFormat::kComputeOnly : CsvFormat::kComms;
    files.push_back({"table", *flags.csv, to_csv(table, format)});
  }
  return files;
}

void write_files(std::span<const ScheduleFile> files) {
  for (const ScheduleFile& file : files) {
    if (file.path == "-") {
      data_out() << file.text;
    } else {
      write_file(file.path, file.text);
    }
  }
}

void list_files(std::span<const ScheduleFile> files) {
  for (const ScheduleFile& file : files)
    std::cout << file.what << ": " << visible(file.path) << "\n";
}

}  // namespace tessera::cli
