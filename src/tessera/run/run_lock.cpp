#include "tessera/run/run_lock.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "tessera/base/check.h"
#include "tessera/base/file_lock.h"
#include "tessera/base/machine.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// The owner as written in the file: " (process 123 on host vm)"; "" if not written yet.
std::string owner_of(const Descriptor& file) {
  std::array<char, 300> text{};
  const ssize_t length = pread(file.get(), text.data(), text.size(), 0);
  if (length <= 0) return "";
  const std::string_view written(text.data(), static_cast<size_t>(length));
  return concat(" (", written.substr(0, written.find('\n')), ")");
}

}  // namespace

RunLock::RunLock(const std::string& folder, NotYetTaken)
    : folder_(folder), path_(fs::path(folder) / kFile) {}

RunLock::RunLock(const std::string& folder) : RunLock(folder, NotYetTaken{}) {
  constexpr int kMostTries = 100;  // One fails if another start has just left the folder.
  std::error_code error;
  for (int i = 0; i < kMostTries && !file_.is_open(); ++i) {
    error = make_folder();
    if (!error) take();
  }
  if (error) throw DataError(concat("cannot create ", folder, ": ", error.message()));
  TSR_CHECK(file_.is_open(), "run directory ", folder,
            " is in use: other runs keep starting and ending in it; choose another run directory");
  sign();
}

RunLock::~RunLock() {
  // Before unlocking, so that whoever has opened the file in the meantime sees that it is gone.
  if (file_.is_open()) unlink(path_.c_str());
  file_.reset();
  for (const fs::path& folder : made_) rmdir(folder.c_str());
}

// Fails, among other reasons, if another process removes a folder above it at the same time.
std::error_code RunLock::make_folder() {
  for (fs::path at = folder_; !at.empty() && !fs::exists(at); at = at.parent_path()) {
    made_.push_back(at);
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  return error;
}

// Does nothing if another process removes the folder or the file at the same time.
void RunLock::take() {
  Descriptor file(open(path_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.is_open() && errno == ENOENT) return;
  if (!file.is_open()) throw_system_error("cannot write " + path_);
  TSR_CHECK(lock_file(file, path_), "run directory ", folder_.string(),
            " belongs to a run in progress", owner_of(file),
            "; wait until it ends, stop it, or choose another run directory");
  if (is_at(file, path_)) file_ = std::move(file);
}

void RunLock::sign() const {
  if (ftruncate(file_.get(), 0) != 0) throw_system_error("cannot write " + path_);
  write_all(file_, concat("process ", getpid(), " on host ", host_name(), "\n"), path_);
}

}  // namespace tessera
