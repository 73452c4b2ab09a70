#include "tessera/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "tessera/base/check.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string_view kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::character:
    case fs::file_type::block:
      return "a device";
    default:
      return "not a file";
  }
}

void check_plain(const std::string& path) {
  std::error_code none;  // If this fails, so does open, with a better message.
  const fs::file_type type = fs::status(path, none).type();
  if (type == fs::file_type::regular || type == fs::file_type::none ||
      type == fs::file_type::not_found) {
    return;
  }
  throw DataError(concat(path, " is ", kind_of(type), ", not a regular file; give a regular file"));
}

}  // namespace

Descriptor open_plain_file(const std::string& path) {
  check_plain(path);
  // Does not block, even if the path has become something else in the meantime.
  Descriptor file = checked(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY),
                            "cannot open " + path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw_system_error("cannot read " + path);
  if (!S_ISREG(status.st_mode)) throw DataError(concat(path, " is no longer a regular file"));
  return file;
}

std::string read_file(const std::string& path, size_t most) {
  TSR_CHECK(!fs::is_directory(path), path, " is a folder; give a file in it");
  const Descriptor file = open_plain_file(path);
  constexpr size_t kPart = 1 << 20;
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kPart);
    const ssize_t got = read(file.get(), text.data() + before, kPart);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(0, got)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("cannot read " + path);
    if (got == 0 || text.size() > most) return text;
  }
}

}  // namespace tessera
