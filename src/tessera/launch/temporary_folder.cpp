#include "tessera/launch/temporary_folder.h"

#include <fcntl.h>
#include <stdlib.h>  // mkdtemp is POSIX.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tessera/base/file_lock.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "tessera-run-";
constexpr std::string_view kLock = "launcher.lock";

bool is_own(const Descriptor& file) {
  struct stat found {};
  return fstat(file.get(), &found) == 0 && found.st_uid == geteuid();
}

void remove_if_left(const fs::path& folder) {
  const std::string path = folder / kLock;
  const Descriptor lock(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!lock.is_open() || !is_own(lock) || !lock_file(lock, path)) return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

void remove_left(const fs::path& parent) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (entry.path().filename().native().starts_with(kPrefix)) remove_if_left(entry.path());
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  remove_left(fs::temp_directory_path());
  while (!lock_.is_open()) make();
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

// Another launcher may remove the folder between its creation and its lock; then lock_ stays
// closed.
void TemporaryFolder::make() {
  path_ = fs::temp_directory_path() / concat(kPrefix, "XXXXXX");
  if (mkdtemp(path_.data()) == nullptr) throw_system_error(concat("cannot create ", path_));
  const std::string path = fs::path(path_) / kLock;
  Descriptor lock = checked(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600),
                            "cannot write " + path);
  if (lock_file(lock, path) && is_at(lock, path)) lock_ = std::move(lock);
}

}  // namespace tessera
