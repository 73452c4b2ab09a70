#pragma once

#include <sys/types.h>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// A small process that outlives the launcher: when the launcher is gone, for whatever reason, it
/// kills every added process group and ends. It detects that by a pipe whose only writers are the
/// launcher and, until they exec, the ranks.
class Guard {
 public:
  Guard();
  /// All groups are gone by now, or the guard kills them.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// For a forked child before exec: adds its own group.
  static void add_own_group(int descriptor);
  /// The write end of its pipe, for add_own_group().
  int descriptor() const { return writer_.get(); }
  /// The group is gone; its number may be reused.
  void remove(pid_t group);

 private:
  Descriptor writer_;
  pid_t pid_ = 0;
};

}  // namespace tessera
