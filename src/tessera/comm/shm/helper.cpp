#include "tessera/comm/shm/helper.h"

#include <condition_variable>
#include <set>
#include <thread>

namespace tessera::comm::detail::shm {
namespace {

using std::chrono::microseconds;

constexpr microseconds kPause{500};  // Between looks at operations that do not go on.
constexpr microseconds kShortPause{50};
constexpr int kYieldingLooks = 200;
constexpr int kMostIdle = 100;  // Looks without operations; then it sleeps until told.

class Helper {
 public:
  void add(Activity& activity) {
    const std::lock_guard lock(activities_mutex_);
    activities_.insert(&activity);
    if (!started_) std::thread([this] { run(); }).detach();
    started_ = true;
  }

  void remove(Activity& activity) {
    const std::lock_guard lock(activities_mutex_);
    activities_.erase(&activity);
  }

  void tell() {
    if (!asleep_.load(std::memory_order_seq_cst)) return;
    {
      const std::lock_guard lock(sleep_mutex_);
      told_ = true;
    }
    told_changed_.notify_one();
  }

 private:
  struct Look {
    bool any = false;    // Something is unfinished.
    bool moved = false;  // Something went on.
  };
  Look advance_all() {
    const std::lock_guard lock(activities_mutex_);
    Look look;
    for (Activity* const activity : activities_) {
      if (!activity->needs_helper()) continue;
      look.any = true;
      look.moved |= activity->try_advance();
    }
    return look;
  }

  // False if nobody told it anything for a while.
  bool sleep_until_told() {
    std::unique_lock lock(sleep_mutex_);
    asleep_.store(true, std::memory_order_seq_cst);
    // An operation that was started just before may not have seen that this thread sleeps.
    const bool told =
        told_changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return told_; });
    told_ = false;
    asleep_.store(false, std::memory_order_seq_cst);
    return told;
  }

  void run() {
    int idle = 0;   // Looks since something was unfinished.
    int still = 0;  // Looks since something went on.
    for (;;) {
      const Look look = advance_all();
      idle = look.any ? 0 : idle + 1;
      still = look.moved ? 0 : still + 1;
      if (idle > kMostIdle) {
        if (sleep_until_told()) idle = 0;
      } else if (look.any && still < kYieldingLooks) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(look.any && still < 2 * kYieldingLooks ? kShortPause : kPause);
      }
    }
  }

  std::mutex activities_mutex_;
  std::set<Activity*> activities_;
  bool started_ = false;
  std::mutex sleep_mutex_;
  std::condition_variable told_changed_;
  bool told_ = false;
  std::atomic<bool> asleep_ = false;
};

// Never destroyed: its thread may outlive the other static objects.
Helper& helper() {
  static auto* const instance = new Helper;
  return *instance;
}

}  // namespace

void tell_helper() {
  helper().tell();
}

Helped::Helped(Activity& activity) : activity_(activity) {
  helper().add(activity);
}

Helped::~Helped() {
  helper().remove(activity_);
}

}  // namespace tessera::comm::detail::shm
