#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/schedule/flags.h"
#include "tessera/draw/timeline.h"

namespace tessera::cli {

/// The content of the requested files.
struct ScheduleDrawing {
  std::span<const Timeline> timelines;
  std::string title;
  std::string subtitle;
  const Schedule& table;  // For --csv.
};

struct ScheduleFile {
  std::string_view what;
  std::string path;
  std::string text;
};

/// ConfigError if a file has more actions than its viewer can show.
void check_picture_size(int64_t actions, const char* flag);
void check_trace_size(int64_t actions, const char* flag);

/// Makes all files before any is written, so that an error leaves no file. ConfigError if there are
/// more actions than a picture, page or trace can show.
std::vector<ScheduleFile> make_files(const ScheduleFlags& flags, const ScheduleDrawing& drawing);

/// A path of "-" is stdout.
void write_files(std::span<const ScheduleFile> files);

/// Prints which files were written.
void list_files(std::span<const ScheduleFile> files);

}  // namespace tessera::cli
