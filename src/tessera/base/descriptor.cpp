#include "tessera/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  reset();
  number_ = std::exchange(other.number_, -1);
  return *this;
}

void Descriptor::reset() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

void throw_system_error(const std::string& what) {
  throw DataError(concat(what, ": ", std::strerror(errno)));
}

Descriptor checked(int number, const std::string& what) {
  if (number < 0) throw_system_error(what);
  return Descriptor(number);
}

void write_all(const Descriptor& file, std::string_view bytes, const std::string& path) {
  constexpr size_t kMost = size_t{1} << 30;  // One system call writes less than 2 GiB.
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), std::min(bytes.size(), kMost));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error("cannot write " + path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw_system_error(
        "cannot create a pipe to a rank; allow more open files (ulimit -n) or start fewer ranks");
  }
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

}  // namespace tessera
