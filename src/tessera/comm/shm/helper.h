#pragma once

#include "tessera/comm/shm/activity.h"

/// The helper thread of this process. It advances the operations that no thread waits for, so that
/// large ones go on during computation, and ranks that wait in different orders get past each
/// other. It sleeps if there are none.
namespace tessera::comm::detail::shm {

/// Call it after an operation was started and has not ended. Wakes the helper only if it sleeps for
/// long: that costs as much as a small operation.
void tell_helper();

/// During its lifetime the helper advances this activity.
class Helped {
 public:
  explicit Helped(Activity& activity);
  ~Helped();
  Helped(const Helped&) = delete;
  Helped& operator=(const Helped&) = delete;

 private:
  Activity& activity_;
};

}  // namespace tessera::comm::detail::shm
