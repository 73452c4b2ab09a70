#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// Why a job ends or restarts.
struct Failure {
  /// What happened.
  enum class Kind {
    kRank,         // A rank ended with an exit code other than 0, or by a signal.
    kNodeLost,     // A node's launcher is gone or cannot be reached.
    kInterrupted,  // A launcher received a terminating signal.
    kRendezvous,   // The rendezvous of the launchers failed.
    kHang,         // A rank sends no heartbeats.
    kResize,       // A node has joined a job that runs on fewer nodes than it could.
  };

  Kind kind = Kind::kRank;             // Decides which of the fields below matter.
  int64_t node = 0;                    // Where it happened, or the node that was lost or joined.
  std::string host = "";               // Name of that node's host; may be empty for kRendezvous.
  GlobalRank rank = {};                // kRank and kHang.
  int64_t exit_code = 1;               // Exit code of the launchers, unless there is a signal.
  int64_t signal = 0;                  // 0: none.
  std::string message = "";            // From the rank's error file, or from the launcher.
  std::string tail_name = "";          // stderr or stdout.
  std::vector<std::string> tail = {};  // The last lines that the rank wrote there.

  /// The exit code of all launchers.
  int64_t code() const { return signal == 0 ? exit_code : 128 + signal; }
  /// Whether `rank` has a meaning.
  bool is_of_rank() const { return kind == Kind::kRank || kind == Kind::kHang; }
  friend bool operator==(const Failure&, const Failure&) = default;
};

/// How one rank of this node ended.
struct RankEnd {
  GlobalRank rank = {};  // In the world of this attempt.
  int status = 0;        // As returned by waitpid.
  int stopped = 0;       // The last signal from the launcher before the end; 0: none.
};

/// "SIGTERM".
std::string signal_name(int64_t number);
/// "exit code 3", "SIGSEGV (Segmentation fault)".
std::string status_text(int status);

/// The content of a rank's error file.
struct ErrorReport {
  std::string message = "";  // Of the error; cut after 2000 bytes.
  int64_t time_us = 0;       // Since 1970; 0 if not in the file.
};

/// Reads torchrun's two forms; nothing if there is no such file or it has another form.
std::optional<ErrorReport> read_error_file(const std::string& path);

}  // namespace tessera
