#include "tessera/format/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tessera/base/text.h"
#include "tessera/format/checksum.h"

namespace tessera {
namespace {

constexpr std::string_view kDraft = ".part";
constexpr size_t kBlock = 256 << 10;  // Stays in the cache between checksum and write.
constexpr int64_t kLeastToSend = int64_t{8} << 20;  // To the disk, at a time.

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
  while (!bytes.empty()) {
    const std::span<const std::byte> block = bytes.first(std::min(bytes.size(), kBlock));
    checksum_ = crc32c(block, checksum_);
    write_all(file_, {reinterpret_cast<const char*>(block.data()), block.size()}, path_);
    size_ += static_cast<int64_t>(block.size());
    bytes = bytes.subspan(block.size());
    send_to_disk();
  }
}

void NewFile::send_to_disk() {
  if (size_ - sent_ < kLeastToSend) return;
  // Only a hint: finish() waits for the disk and sees its errors.
  sync_file_range(file_.get(), sent_, size_ - sent_, SYNC_FILE_RANGE_WRITE);
  sent_ = size_;
}

void NewFile::finish() {
  if (fsync(file_.get()) != 0 || std::rename(draft_.c_str(), path_.c_str()) != 0) {
    throw_system_error("cannot write " + path_);
  }
  file_.reset();
}

}  // namespace tessera
