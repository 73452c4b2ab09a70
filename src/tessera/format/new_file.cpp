#include "tessera/format/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "tessera/base/text.h"
#include "tessera/format/checksum.h"

namespace tessera {
namespace {

constexpr std::string_view kDraft = ".part";

}  // namespace

NewFile::NewFile(std::string path) : path_(std::move(path)) {
  // The process id keeps ranks that write the same file apart.
  draft_ = concat(path_, kDraft, getpid());
  file_ = checked(open(draft_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
                  "cannot write " + path_);
}

NewFile::~NewFile() {
  if (file_.is_open()) unlink(draft_.c_str());
}

std::string_view NewFile::name_of_draft(std::string_view name) {
  const size_t end = name.rfind(kDraft);
  if (end == std::string_view::npos) return "";
  const std::string_view number = name.substr(end + kDraft.size());
  const bool is_draft =
      !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
  return is_draft ? name.substr(0, end) : "";
}

void NewFile::write(std::span<const std::byte> bytes) {
  write_all(file_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path_);
  checksum_ = crc32c(bytes, checksum_);
  size_ += static_cast<int64_t>(bytes.size());
}

void NewFile::finish() {
  if (fsync(file_.get()) != 0 || std::rename(draft_.c_str(), path_.c_str()) != 0) {
    throw_system_error("cannot write " + path_);
  }
  file_.reset();
}

}  // namespace tessera
