#include "tessera/comm/internal/engine_error.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "tessera/base/error_words.h"

namespace tessera::comm::detail {
namespace {

/// LibTorch's log level, shared by all threads.
struct LogLevel {
  std::mutex mutex;
  int holders = 0;
  int before = 0;
};

LogLevel& log_level() {
  static LogLevel level;
  return level;
}

}  // namespace

std::string engine_message(const std::exception& error) {
  std::string words = error_words(error);
  while (!words.empty() && (words.back() == '\n' || words.back() == '.')) words.pop_back();
  return words;
}

QuietEngine::QuietEngine() : quiet_(!wants_backtrace()) {
  LogLevel& level = log_level();
  const std::lock_guard lock(level.mutex);
  if (!quiet_ || level.holders++ > 0) return;
  level.before =
      std::exchange(FLAGS_caffe2_log_level, std::max(FLAGS_caffe2_log_level, c10::GLOG_ERROR));
}

QuietEngine::~QuietEngine() {
  LogLevel& level = log_level();
  const std::lock_guard lock(level.mutex);
  if (quiet_ && --level.holders == 0) FLAGS_caffe2_log_level = level.before;
}

}  // namespace tessera::comm::detail
