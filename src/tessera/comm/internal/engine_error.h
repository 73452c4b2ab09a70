#pragma once

#include <exception>
#include <string>

namespace tessera::comm::detail {

/// The message of LibTorch or an engine in one line, without the stack trace.
std::string engine_message(const std::exception& error);

/// During its lifetime LibTorch only prints errors: otherwise its store prints a stack trace if a
/// connection breaks. No effect with TESSERA_BACKTRACE=1.
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
