#include "tessera/run/run_folder.h"

#include <filesystem>
#include <system_error>

#include "tessera/base/check.h"
#include "tessera/format/new_file.h"
#include "tessera/format/weight_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const char* what, const fs::path& path, const std::error_code& error) {
  throw DataError(concat("cannot ", what, " ", path.string(), ": ", error.message()));
}

bool has_content(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return false;
  if (error) refuse("look into", folder, error);
  TSR_CHECK(fs::is_directory(status), "run directory ", folder.string(),
            " is a file; name a folder");
  const bool empty = fs::is_empty(folder, error);
  if (error) refuse("look into", folder, error);
  return !empty;
}

void check_content(const std::string& path, FormerRun former, bool holds_run) {
  TSR_CHECK(former != FormerRun::kRefuse, "run directory ", path,
            " has content; choose another one, or give --overwrite to remove the run in it");
  TSR_CHECK(former != FormerRun::kResume, "run directory ", path,
            " holds no checkpoint to resume from; give --overwrite to start again, or choose "
            "another one");
  TSR_CHECK(holds_run, "run directory ", path, " holds files and no run (no ", RunFolder::kMetrics,
            "); --overwrite removes a run and nothing else, so choose another folder");
}

void remove_path(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) refuse("remove", path, error);
}

bool is_of_model(const std::string& name) {
  return name == "config.json" || name == kWeightIndex ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

bool is_record(const std::string& name) {
  return name.starts_with("step-") && name.ends_with(".json");
}

// What others have put there stays, and then so does the folder.
void remove_files(const fs::path& folder, bool (*is_ours)(const std::string& name)) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_ours(entry.path().filename())) remove_path(entry.path());
  }
  if (fs::is_empty(folder, error)) remove_path(folder);
}

}  // namespace

RunFolder::RunFolder(std::string path, FormerRun former) : path_(std::move(path)) {
  TSR_CHECK(!path_.empty(), "the run directory has no name; give --run-dir DIR");
  if (!has_content(path_)) return;
  check_content(path_, former, fs::exists(this->path(kMetrics)) || fs::exists(this->path(kConfig)));
}

std::string RunFolder::path(std::string_view name) const {
  return fs::path(path_) / name;
}

void RunFolder::begin() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) refuse("make", path_, error);
  for (const std::string_view name : {kConfig, kMetrics, kReport}) remove_path(path(name));
  remove_files(path(kModel), is_of_model);
  remove_files(path(kPipeline), is_record);
}

void RunFolder::write(std::string_view name, std::string_view text) const {
  NewFile file(path(name));
  file.write(text);
  file.finish();
}

}  // namespace tessera
