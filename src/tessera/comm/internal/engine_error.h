#pragma once

#include <exception>
#include <string>

namespace tessera::comm::detail {

/// What LibTorch or an engine said, in one line and without the stack that it appends.
std::string engine_message(const std::exception& error);

/// While one lives, LibTorch prints errors alone: its store prints its stack where a connection
/// breaks. With TESSERA_BACKTRACE=1 nothing changes.
class QuietEngine {
 public:
  QuietEngine();
  ~QuietEngine();
  QuietEngine(const QuietEngine&) = delete;
  QuietEngine& operator=(const QuietEngine&) = delete;

 private:
  bool quiet_;
};

}  // namespace tessera::comm::detail
