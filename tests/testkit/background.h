#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "tests/testkit/process.h"

namespace tessera::testkit {

/// A program that runs in parallel to the test. The processes that it starts inherit one end of a
/// pipe; when that end is closed, all of them have ended. The destructor kills the program.
class Background {
 public:
  /// The first word is the program's path.
  explicit Background(const std::vector<std::string>& words,
                      const std::map<std::string, std::string>& variables = {});
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  pid_t pid() const { return pid_; }
  /// The output so far.
  const Finished& seen() const { return seen_; }
  void signal(int number) const;
  /// Reads until stdout or stderr has this text so many times; the test fails if it does not come.
  void await(const std::string& text, size_t times = 1);
  /// Reads to the end of both streams; the test fails if that takes too long.
  Finished finish();
  /// Whether all processes that it started end soon.
  bool leaves_nobody();
  /// Memory of the launcher only, in KiB; after finish().
  int64_t peak_memory_kib() const { return peak_kib_; }

 private:
  bool read_more(int milliseconds);

  pid_t pid_ = 0;
  int out_ = -1;
  int err_ = -1;
  int lifeline_ = -1;
  bool reaped_ = false;
  int64_t peak_kib_ = 0;
  Finished seen_;
};

/// Waits until the process, which may be no child, has ended; false if that takes too long.
bool has_ended(pid_t pid);

}  // namespace tessera::testkit
