#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/schedule/flags.h"
#include "tessera/draw/timeline.h"

namespace tessera::cli {

/// What the files show that were asked for.
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

/// All are made before any is written, so that a refusal leaves no file. ConfigError for more
/// actions than a picture, page or trace can show.
std::vector<ScheduleFile> make_files(const ScheduleFlags& flags, const ScheduleDrawing& drawing);

/// A path of "-" is stdout.
void write_files(std::span<const ScheduleFile> files);

/// Says which were written.
void list_files(std::span<const ScheduleFile> files);

}  // namespace tessera::cli
