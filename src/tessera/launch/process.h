#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A program to start and what it inherits.
struct ProcessSpec {
  std::string path = "";                      // As returned by find_program.
  std::vector<std::string> arguments = {};    // argv, including the program's name.
  std::vector<std::string> environment = {};  // NAME=value.
  int out = -1;                               // The program's stdout; its stdin is empty.
  int err = -1;                               // The program's stderr.
  int kept = -1;                              // A further descriptor that stays open.
  int guard = -1;                             // Guard::descriptor().
};

/// A process that leads its own process group.
class Process {
 public:
  /// Starts it with default signal handlers and an empty mask; it is killed when this process dies.
  /// If the program cannot be started, the child says so on its stderr and ends with 126 or 127.
  explicit Process(const ProcessSpec& spec);

  /// Also the number of its process group.
  pid_t pid() const { return pid_; }
  /// Collects ended processes; call it after SIGCHLD.
  void collect();
  /// As returned by waitpid; nothing while the process runs.
  std::optional<int> status() const { return status_; }
  /// No process of the group is left. Orphans of the group count if this process is their
  /// subreaper.
  bool is_group_gone() const { return gone_; }
  /// Its state in /proc: 'R', 'S', 'D', 'T', …; '?' if it has ended.
  char state() const;
  /// Sends a signal to the whole group; does nothing if it is gone.
  void signal(int number);

 private:
  pid_t pid_ = 0;
  std::optional<int> status_;
  bool gone_ = false;
};

/// The path that execvp would run; otherwise nothing, and errno is ENOENT or EACCES.
std::optional<std::string> find_program(const std::string& name);

}  // namespace tessera
