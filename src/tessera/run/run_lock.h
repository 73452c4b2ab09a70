#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Makes this process the owner of a run folder and creates the folder if needed. The owner locks
/// a file in the folder that names the process; the system releases the lock when the process ends.
class RunLock {
 public:
  static constexpr std::string_view kFile = "run.lock";  // In the run folder.

  /// ConfigError if another run owns the folder.
  explicit RunLock(const std::string& folder);
  /// Removes the file, and those of the folders created here that are empty.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  struct NotYetTaken {};
  RunLock(const std::string& folder, NotYetTaken);
  void take();
  std::error_code make_folder();
  void sign() const;

  const std::filesystem::path folder_;
  const std::string path_;
  std::vector<std::filesystem::path> made_;  // Innermost first.
  Descriptor file_;
};

}  // namespace tessera
