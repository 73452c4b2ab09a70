#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"

namespace tessera TSR_API {

/// Adds a prefix to each line of a stream that arrives in pieces. A carriage return also ends a
/// line, so that progress bars are visible; lines longer than kLongestLine are split.
class LinePrefixer {
 public:
  static constexpr size_t kLongestLine = size_t{64} << 10;  // In bytes, without the prefix.

  explicit LinePrefixer(std::string prefix) : prefix_(std::move(prefix)) {}
  /// The lines completed by these bytes.
  std::string add(std::string_view bytes);
  /// The last line, if it is incomplete.
  std::string finish();

 private:
  std::string prefix_;
  std::string begun_;  // The incomplete line.
  bool after_return_ = false;
};

/// Keeps the end of a stream, in little memory.
class Tail {
 public:
  static constexpr size_t kBytes = size_t{32} << 10;  // A backtrace and what is before it.

  /// The next bytes of the stream.
  void add(std::string_view bytes);
  /// The last kBytes of the stream, or up to twice as many.
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// The last lines of a text, without colours and control characters, each cut to `width` bytes.
/// LibTorch's backtraces are left out: the message is before them.
std::vector<std::string> last_lines(std::string_view text, size_t count, size_t width);

/// The end of a file; "" if it cannot be read.
std::string tail_of_file(const std::string& path);

/// Writes to a descriptor that may be slow: buffers what it does not accept, so that the launcher
/// can continue. Callers stop reading their input while `is_full`.
class Sink {
 public:
  Sink(EventLoop& loop, int descriptor) : loop_(loop), descriptor_(descriptor) {}
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /// Never blocks. Drops the text if nobody reads the output any more.
  void write(std::string_view text);
  /// Writes until all is written or the deadline has passed.
  void flush(Clock::time_point deadline);
  /// More than 1 MiB is buffered.
  bool is_full() const { return waiting_.size() > kMostWaiting; }
  /// Nobody reads the output any more.
  bool is_broken() const { return broken_; }

 private:
  static constexpr size_t kMostWaiting = size_t{1} << 20;
  void pump();
  bool write_some();

  EventLoop& loop_;
  int descriptor_;
  std::string waiting_;
  bool broken_ = false;
};

}  // namespace tessera
