#include "tessera/format/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tessera/base/text.h"

namespace tessera {

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  // The process's number keeps ranks that write beside each other apart.
  draft_ = concat(path_, ".part", getpid());
  file_ = checked(open(draft_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
                  "cannot write " + path_);
}

NewFile::~NewFile() {
  if (file_.is_open()) unlink(draft_.c_str());
}

void NewFile::write(std::span<const std::byte> bytes) {
  constexpr size_t kMost = size_t{1} << 30;  // One call of the system takes less than 2 GiB.
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), std::min(bytes.size(), kMost));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error("cannot write " + path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void NewFile::finish() {
  if (fsync(file_.get()) != 0 || std::rename(draft_.c_str(), path_.c_str()) != 0) {
    throw_system_error("cannot write " + path_);
  }
  file_.reset();
}

}  // namespace tessera
