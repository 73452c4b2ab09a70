#include "tessera/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

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

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw_system_error("no pipe to a rank; allow more open files (ulimit -n) or start fewer ranks");
  }
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  fcntl(pipe.reader.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

}  // namespace tessera
