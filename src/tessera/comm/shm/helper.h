#pragma once

#include "tessera/comm/shm/activity.h"

/// The helper thread of this process. It advances the operations that no thread waits for, so that
/// large ones go on during computation, and ranks that wait in different orders get past each
/// other. It sleeps if there are none.
namespace tessera::comm::detail::shm {

/// How soon the helper looks at a new operation. Waking it costs as much as a small operation.
enum class Urgency { kSoon, kNow };
/// Of an operation of so many bytes.
constexpr Urgency urgency_of(size_t bytes) {
  return bytes >= (size_t{256} << 10) ? Urgency::kNow : Urgency::kSoon;
}
void tell_helper(Urgency urgency);

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
