#include "tessera/format/internal/record_files.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/format/new_file.h"

namespace tessera::format::detail {
namespace {

namespace fs = std::filesystem;

constexpr double kLatest = 4e9;  // Seconds.

std::string line_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

// Removes `before`, a number and `after` from the text and returns the number.
std::optional<int64_t> take_number(std::string_view& text, std::string_view before,
                                   std::string_view after) {
  if (!text.starts_with(before)) return std::nullopt;
  text.remove_prefix(before.size());
  const size_t end = text.find(after);
  if (end == std::string_view::npos) return std::nullopt;
  const std::optional<int64_t> number = to_integer(text.substr(0, end));
  text.remove_prefix(end + after.size());
  return number;
}

}  // namespace

fs::path record_path(const fs::path& folder, int64_t step, int64_t rank) {
  return folder / concat("step-", step, ".rank-", rank, ".json");
}

void write_record(const fs::path& path, std::string_view text) {
  const fs::path folder = path.parent_path();
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw DataError(concat("cannot create ", folder.string(), ": ", failed.message()));
  NewFile file(path);
  file.write(text);
  file.finish();
}

RecordFiles record_files(const fs::path& folder) {
  RecordFiles files;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename();
    std::string_view rest = name;
    const auto step = take_number(rest, "step-", ".");
    const auto rank = take_number(rest, "rank-", ".json");
    if (step && rank && rest.empty()) files[*step].push_back(at->path());
  }
  return files;
}

const std::vector<fs::path>& files_of_step(const RecordFiles& files, int64_t step) {
  const auto found = files.find(step);
  TSR_CHECK(found != files.end(), "step ", step, " was not recorded; choose from ",
            join(steps_of(files), ", "));
  return found->second;
}

std::vector<int64_t> steps_of(const RecordFiles& files) {
  std::vector<int64_t> steps;
  for (const auto& [step, paths] : files) steps.push_back(step);
  return steps;
}

void check_name(const fs::path& path, int64_t step, int64_t rank) {
  if (path == record_path(path.parent_path(), step, rank)) return;
  throw DataError(concat(path.string(), ": contains step ", step, " of rank ", rank,
                         ", which contradicts its name"));
}

std::string record_text(const nlohmann::ordered_json& head, std::string_view list,
                        const std::vector<nlohmann::ordered_json>& lines) {
  std::string text = line_of(head);
  text.back() = ',';
  text += concat("\n\"", list, "\":[");
  std::string_view between = "\n";
  for (const nlohmann::ordered_json& line : lines) {
    text.append(between).append(line_of(line));
    between = ",\n";
  }
  return text + "\n]}\n";
}

void check_record_size(std::string_view text, size_t largest, std::string_view origin) {
  if (text.size() <= largest) return;
  throw DataError(concat(origin, ": larger than the ",
                         with_thousands(static_cast<int64_t>(largest)),
                         " bytes that a recorded step may have"));
}

double seconds_of(const JsonField& field) {
  const double seconds = field.duration();
  if (seconds > kLatest) field.refuse(concat("at most ", kLatest, " seconds"));
  return seconds;
}

TimeSpan time_span_of(const JsonField& field) {
  const TimeSpan time{seconds_of(field.at("start")), seconds_of(field.at("end"))};
  if (time.end < time.start) field.at("end").refuse(concat("at least its start, ", time.start));
  return time;
}

}  // namespace tessera::format::detail
