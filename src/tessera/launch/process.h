#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A program to start, and what it inherits.
struct ProcessSpec {
  std::string path = "";                      // As find_program gives it.
  std::vector<std::string> arguments = {};    // The first is the program's name for itself.
  std::vector<std::string> environment = {};  // NAME=value.
  int out = -1;                               // Its stdout and stderr; its stdin is empty.
  int err = -1;
  int kept = -1;   // A further descriptor that stays open in it.
  int guard = -1;  // Guard::descriptor().
};

/// A process that leads a process group of its own, with whatever it starts.
class Process {
 public:
  /// Default signals, an empty mask, killed when this process dies. A program that cannot be
  /// started says so on its stderr and ends with 126 or 127.
  explicit Process(const ProcessSpec& spec);

  pid_t pid() const { return pid_; }
  /// Takes note of what has ended; call it after SIGCHLD.
  void collect();
  /// As waitpid gives it; nothing while the process runs.
  std::optional<int> status() const { return status_; }
  /// No process of the group is left. Orphans of the group count where this process is their
  /// subreaper.
  bool is_group_gone() const { return gone_; }
  /// To all of the group; nothing where it is gone.
  void signal(int number);

 private:
  pid_t pid_ = 0;
  std::optional<int> status_;
  bool gone_ = false;
};

/// Where execvp would find the program; nothing, and errno is ENOENT or EACCES, where it would not.
std::optional<std::string> find_program(const std::string& name);

}  // namespace tessera
