#include "tessera/run/run_folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "tessera/base/check.h"
#include "tessera/format/event_file.h"
#include "tessera/format/new_file.h"
#include "tessera/format/weight_files.h"
#include "tessera/run/metrics.h"
#include "tessera/run/run_lock.h"
#include "tessera/run/tokenizer_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const char* what, const fs::path& path, const std::error_code& error) {
  throw DataError(concat("cannot ", what, " ", path.string(), ": ", error.message()));
}

bool is_of_run(std::string_view name) {
  constexpr std::array kNames{RunFolder::kConfig, RunFolder::kMetrics, RunFolder::kCsv,
                              RunFolder::kReport};
  return std::ranges::find(kNames, name) != kNames.end();
}

// A temporary file of a run that was killed while writing.
bool is_left_over(std::string_view name) {
  return name == RunLock::kFile || is_of_run(NewFile::name_of_draft(name));
}

bool has_content(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (error) refuse("look into", folder, error);
  TSR_CHECK(fs::is_directory(status), "run directory ", folder.string(),
            " is a file; give a folder");
  const fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return false;  // Its run has just ended.
  if (error) refuse("look into", folder, error);
  return std::ranges::any_of(entries, [](const fs::directory_entry& entry) {
    return !is_left_over(entry.path().filename().native());
  });
}

void check_content(const std::string& path, FormerRun former) {
  if (!has_content(path)) return;
  const bool resumable =
      CheckpointFolder(fs::path(path) / RunFolder::kCheckpoints).newest().has_value();
  TSR_CHECK(former != FormerRun::kRefuse, "run directory ", path,
            " is not empty; choose another one, or give ",
            resumable ? "--resume to continue the run in it, or " : "",
            "--overwrite to replace the run in it");
  if (former == FormerRun::kResume && resumable) return;
  TSR_CHECK(former != FormerRun::kResume, "run directory ", path,
            " holds no checkpoint to resume from; give --overwrite to start again, or choose "
            "another one");
  const fs::path folder(path);
  const bool holds_run =
      fs::exists(folder / RunFolder::kMetrics) || fs::exists(folder / RunFolder::kConfig);
  TSR_CHECK(holds_run, "run directory ", path, " holds files, but no run (no ", RunFolder::kMetrics,
            "); --overwrite only replaces runs, so choose another folder");
}

void remove_path(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) refuse("remove", path, error);
}

bool is_of_model(std::string_view name) {
  return name == "config.json" || name == kWeightIndex || is_tokenizer_file(name) ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

bool is_record(std::string_view name) {
  return name.starts_with("step-") && name.ends_with(".json");
}

bool is_trace(std::string_view name) {
  return name.starts_with("steps-") && name.ends_with(".json");
}

// Other files stay, and so does a folder that holds them.
void remove_files(const fs::path& folder, bool (*is_ours)(std::string_view name)) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (is_ours(name) || is_ours(NewFile::name_of_draft(name))) remove_path(entry.path());
  }
  if (fs::is_empty(folder, error)) remove_path(folder);
}

}  // namespace

RunFolder::RunFolder(std::string path, FormerRun former) : path_(std::move(path)) {
  TSR_CHECK(!path_.empty(), "the run directory has no name; give --run-dir DIR");
  // Refuses a folder without an owner before touching it.
  if (!fs::exists(this->path(RunLock::kFile))) check_content(path_, former);
  lock_ = std::make_unique<RunLock>(path_);
  check_content(path_, former);
}

RunFolder RunFolder::next_in(const std::string& parent) {
  for (int64_t number = 1;; ++number) {
    try {
      return {concat(parent, "/", number), FormerRun::kRefuse};
    } catch (const ConfigError&) {
      continue;  // Another run owns it.
    }
  }
}

RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder::~RunFolder() = default;

std::string RunFolder::path(std::string_view name) const {
  return fs::path(path_) / name;
}

void RunFolder::begin() const {
  remove_files(path_, is_of_run);
  remove_model();
  remove_files(path(kEvents), is_event_file);
  remove_files(path(kPipeline), is_record);
  remove_files(path(kUnits), is_record);
  remove_files(path(kTrace), is_trace);
  CheckpointFolder(path(kCheckpoints)).clear();
}

void RunFolder::remove_model() const {
  remove_files(path(kModel), is_of_model);
}

void RunFolder::resume(int64_t step) const {
  if (fs::exists(path(kMetrics))) drop_metrics_from(path(kMetrics), step);
}

void RunFolder::write(std::string_view name, std::string_view text) const {
  NewFile file(path(name));
  file.write(text);
  file.finish();
}

}  // namespace tessera
