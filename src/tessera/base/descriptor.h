#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Owns a file descriptor and closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { reset(); }

  /// For system calls; this object still owns it. -1 if closed.
  int get() const { return number_; }
  /// Whether it owns a descriptor.
  bool is_open() const { return number_ >= 0; }
  /// Closes it now, if it is open.
  void reset();
  /// Gives up ownership: the caller closes it.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// Throws DataError with `what` and errno's text.
[[noreturn]] void throw_system_error(const std::string& what);

/// The descriptor; DataError naming `what` if the system call failed.
Descriptor checked(int number, const std::string& what);

/// Writes all bytes, with as many system calls as needed; DataError naming the file if one fails.
void write_all(const Descriptor& file, std::string_view bytes, const std::string& path);

/// Both ends of a pipe.
struct Pipe {
  Descriptor reader;  // Does not block, if it is from make_pipe().
  Descriptor writer;  // Blocks while the pipe is full.
};

/// Both ends are closed in programs that this one starts; the reader never blocks.
Pipe make_pipe();

}  // namespace tessera
