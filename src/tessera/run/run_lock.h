#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Makes this process the one owner of a run folder, which it makes where it is not there. A file
/// in the folder is locked and names the process; the system lets go of the lock however the
/// process ends.
class RunLock {
 public:
  static constexpr std::string_view kFile = "run.lock";

  /// ConfigError where another run owns the folder.
  explicit RunLock(const std::string& folder);
  /// Takes the file away, and of the folders that were made those that are empty.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  struct NotYetTaken {};
  RunLock(const std::string& folder, NotYetTaken);
  void take();
  void make_folder();
  void sign() const;

  const std::filesystem::path folder_;
  const std::string path_;
  std::vector<std::filesystem::path> made_;  // The innermost first.
  Descriptor file_;
};

}  // namespace tessera
