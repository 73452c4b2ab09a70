#pragma once

#include <string>

namespace tessera::testkit {

struct Finished {
  int code = 0;  // The exit code, or 128 + signal.
  std::string out;
  std::string err;
};

/// Runs a shell command and waits for its end.
Finished run(const std::string& command);

}  // namespace tessera::testkit
