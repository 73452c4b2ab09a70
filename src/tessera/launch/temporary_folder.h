#pragma once

#include <string>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A temporary folder that is removed with its owner. The next owner of the same user removes
/// folders of killed owners.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// In $TMPDIR or /tmp; only this user may enter it.
  const std::string& path() const { return path_; }

 private:
  void make();

  std::string path_;
  Descriptor lock_;  // On a file in it: another process can lock it only if the owner is gone.
};

}  // namespace tessera
