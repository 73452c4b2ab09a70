#pragma once

#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A folder among the temporary files that goes with its owner. What owners that were killed have
/// left there is removed by the next one of the same user.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  void make();

  std::string path_;
  Descriptor lock_;  // Of a file in it: who can lock that one knows that the owner is gone.
};

}  // namespace tessera
