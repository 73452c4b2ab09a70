#include "tessera/format/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "tessera/base/check.h"
#include "tessera/base/file_lock.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/checkpoint/shard_files.h"
#include "tessera/format/new_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";

[[noreturn]] void refuse(const char* what, const fs::path& path, const std::error_code& error) {
  throw DataError(concat("cannot ", what, " ", path.string(), ": ", error.message()));
}

Descriptor open_folder(const std::string& path) {
  return checked(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "cannot open " + path);
}

void sync_folder(const std::string& path) {
  if (fsync(open_folder(path).get()) != 0) throw_system_error("cannot write " + path);
}

std::string parent_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

void check_space(const std::string& folder, int64_t bytes) {
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) != 0) throw_system_error("cannot look into " + folder);
  const auto free = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  if (static_cast<double>(bytes) <= free) return;
  throw DataError(concat("the checkpoint needs ", with_thousands(bytes), " bytes, but ", folder,
                         " has only ", with_thousands(static_cast<int64_t>(free)),
                         " free; free some space, or keep fewer checkpoints (--keep-last)"));
}

// Also if the folder may not be looked into: then making a draft says why.
bool is_absent(const std::string& path) {
  std::error_code error;
  return !fs::exists(path, error);
}

// A draft that nobody writes any more is removed.
void remove_stale(const std::string& draft) {
  if (is_absent(draft)) return;
  const Descriptor folder = open_folder(draft);
  TSR_CHECK(lock_file(folder, draft), draft,
            " is being written by another process; wait until it ends, or choose another folder");
  std::error_code error;
  fs::remove_all(draft, error);
  if (error) refuse("remove", draft, error);
}

/// Whether it is new.
bool make_folder(const std::string& path) {
  std::error_code error;
  const bool is_new = fs::create_directories(path, error);
  if (error) refuse("create", path, error);
  return is_new;
}

// Nobody takes it for a complete one while it is being removed.
void remove_checkpoint(const std::string& path) {
  const std::string draft = path + std::string(CheckpointDraft::kSuffix);
  std::error_code error;
  fs::rename(path, draft, error);
  if (!error) fs::remove_all(draft, error);
  if (error) refuse("remove", path, error);
}

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const auto step = to_integer(name.substr(kStep.size()));
  return step && CheckpointFolder::name_of(*step) == name ? step : std::nullopt;
}

}  // namespace

CheckpointDraft::CheckpointDraft(std::string final_path, int64_t bytes)
    : final_path_(std::move(final_path)) {
  while (final_path_.size() > 1 && final_path_.ends_with('/')) final_path_.pop_back();
  path_ = final_path_ + std::string(kSuffix);
  TSR_CHECK(is_absent(final_path_), final_path_,
            " exists already; choose another folder, or remove it");
  const std::string parent = parent_of(final_path_);
  if (make_folder(parent)) sync_folder(parent_of(parent));
  remove_stale(path_);
  check_space(parent, bytes);
  std::error_code error;
  if (!fs::create_directory(path_, error)) refuse("create", path_, error);
  folder_ = open_folder(path_);
  TSR_CHECK(lock_file(folder_, path_), path_, " is being written by another process");
  for (const std::string_view name : {kModelSubfolder, kOptimSubfolder}) {
    make_folder(fs::path(path_) / name);
  }
}

CheckpointDraft::~CheckpointDraft() {
  if (!folder_.is_open()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void CheckpointDraft::publish(const CheckpointIndex& index) {
  const std::string file = fs::path(path_) / CheckpointIndex::kFile;
  check_complete(index, file);
  for (const std::string_view name : {kModelSubfolder, kOptimSubfolder}) {
    const fs::path folder = fs::path(path_) / name;
    if (rmdir(folder.c_str()) != 0) sync_folder(folder);  // An empty one is not needed.
  }
  NewFile text(file);
  text.write(to_json(index));
  text.finish();
  sync_folder(path_);
  std::error_code error;
  fs::rename(path_, final_path_, error);
  if (error) refuse("create", final_path_, error);
  folder_.reset();
  sync_folder(parent_of(final_path_));
}

std::string CheckpointFolder::name_of(int64_t step) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "step-%08lld", static_cast<long long>(step));
  return text.data();
}

std::string CheckpointFolder::path_of(int64_t step) const {
  return fs::path(path_) / name_of(step);
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const auto step = step_of(entry.path().filename().native());
    if (step && is_checkpoint(entry.path())) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<int64_t> CheckpointFolder::newest() const {
  const std::vector<int64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

void CheckpointFolder::set_latest(int64_t step) const {
  NewFile file(fs::path(path_) / kLatest);
  file.write(name_of(step) + "\n");
  file.finish();
  sync_folder(path_);
}

void CheckpointFolder::remove_drafts() const {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename();
    if (NewFile::name_of_draft(name) == kLatest) unlink(entry.path().c_str());
    if (!name.ends_with(CheckpointDraft::kSuffix)) continue;
    if (step_of(name.substr(0, name.size() - CheckpointDraft::kSuffix.size()))) {
      remove_stale(entry.path());
    }
  }
}

void CheckpointFolder::clear() const {
  remove_drafts();
  for (const int64_t step : steps()) remove_checkpoint(path_of(step));
  std::error_code error;
  fs::remove(fs::path(path_) / kLatest, error);
  rmdir(path_.c_str());  // Fails if it holds other files.
}

void CheckpointFolder::keep_last(int64_t count) const {
  remove_drafts();
  const std::vector<int64_t> all = steps();
  const auto excess = static_cast<int64_t>(all.size()) - std::max<int64_t>(count, 1);
  for (int64_t i = 0; i < excess; ++i) remove_checkpoint(path_of(all[static_cast<size_t>(i)]));
}

std::string find_checkpoint(const std::string& path) {
  if (is_checkpoint(path)) return path;
  for (const fs::path& folder : {fs::path(path) / kCheckpointsFolder, fs::path(path)}) {
    const CheckpointFolder all(folder);
    if (const auto step = all.newest()) return all.path_of(*step);
  }
  throw DataError(concat(path, " holds no complete checkpoint; give a checkpoint, or a run ",
                         "directory that has one (tessera train --save-every N)"));
}

}  // namespace tessera
