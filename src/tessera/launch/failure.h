#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// Why a job ends or starts again.
struct Failure {
  enum class Kind {
    kRank,         // A rank ended with an exit code other than 0, or by a signal.
    kNodeLost,     // A node's launcher is gone or cannot be reached.
    kInterrupted,  // A launcher was told to end by a signal.
    kMeeting,      // The launchers did not come together.
  };

  Kind kind = Kind::kRank;
  int64_t node = 0;
  std::string host = "";
  GlobalRank rank = {};                // kRank.
  int64_t exit_code = 1;               // What the launchers end with, unless there is a signal.
  int64_t signal = 0;                  // 0: none.
  std::string message = "";            // Of the rank's error file, or of the launcher.
  std::string tail_name = "";          // stderr or stdout.
  std::vector<std::string> tail = {};  // The last lines that the rank wrote there.

  /// What all launchers end with.
  int64_t code() const { return signal == 0 ? exit_code : 128 + signal; }
  friend bool operator==(const Failure&, const Failure&) = default;
};

/// How one rank of this node ended.
struct RankEnd {
  GlobalRank rank = {};
  int status = 0;   // As waitpid gives it.
  int stopped = 0;  // The last signal that the launcher sent before that; 0: none.
};

/// "SIGTERM".
std::string signal_name(int64_t number);
/// "exit code 3", "SIGSEGV (Segmentation fault)".
std::string status_text(int status);

/// What a rank wrote into its error file.
struct ErrorReport {
  std::string message = "";
  int64_t time_us = 0;  // Since 1970; 0 where the file does not tell.
};

/// Reads torchrun's two forms; nothing where there is no such file or it is something else.
std::optional<ErrorReport> read_error_file(const std::string& path);

}  // namespace tessera
