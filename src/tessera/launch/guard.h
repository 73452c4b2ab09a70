#pragma once

#include <sys/types.h>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A small process that outlives the launcher: it kills every process group that was put under its
/// care when the launcher is gone, however that came about, and ends. It knows by a pipe whose
/// writers are the launcher alone and, until they become their program, the ranks.
class Guard {
 public:
  Guard();
  /// All groups are gone by now, or will be killed.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// For a forked child, before it becomes its program: puts its group under care.
  static void add_own_group(int descriptor);
  int descriptor() const { return writer_.get(); }
  /// The group is gone; its number may be given to others.
  void remove(pid_t group);

 private:
  Descriptor writer_;
  pid_t pid_ = 0;
};

}  // namespace tessera
