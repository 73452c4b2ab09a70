// The tests pass the time to the job, so nothing waits.
#include "tessera/launch/local_job.h"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;

// One rank whose program never reports that it is healthy.
class SilentRank {
 public:
  explicit SilentRank(std::vector<std::string> command)
      : options_{.command = std::move(command)},
        screen_(options_, loop_),
        before_(Clock::now()),
        job_(options_, {.master_addr = "127.0.0.1", .master_port = 1}, options_.command[0],
             folder_.path(), loop_, guard_, screen_),
        after_(Clock::now()) {}

  bool is_healthy_after(std::chrono::milliseconds time) {
    job_.step((time < 5s ? before_ : after_) + time);
    return job_.is_healthy();
  }
  // Bash writes its lines one by one, so it may be stopped before its heartbeat is read. Then the
  // job has nothing to wait for yet.
  bool is_stopped_after_a_heartbeat() {
    return is_healthy_after(0ms) && job_.places() == "rank 0: stopped" &&
           job_.deadline() != Clock::time_point::max();
  }
  LocalJob& job() { return job_; }
  // Handles what the rank has written.
  void wait() { loop_.wait(Clock::now() + 1s); }
  bool has_failed() {
    job_.step(Clock::now());
    return job_.failure().has_value();
  }

 private:
  const testkit::TemporaryFolder folder_;
  const LaunchOptions options_;
  EventLoop loop_;
  Guard guard_;
  Screen screen_;
  Clock::time_point before_;  // The job starts between these.
  LocalJob job_;
  Clock::time_point after_;
};

TEST(LocalJob, ProgramsThatTellNothingAreHealthyAfterFiveSeconds) {
  SilentRank rank({"/bin/sleep", "1000"});
  EXPECT_FALSE(rank.is_healthy_after(0ms));
  EXPECT_FALSE(rank.is_healthy_after(4999ms));
  EXPECT_TRUE(rank.is_healthy_after(5000ms));
}

TEST(LocalJob, ProgramsThatFailedBeforeAreNot) {
  SilentRank rank({"/bin/false"});
  while (!rank.has_failed()) std::this_thread::yield();
  EXPECT_FALSE(rank.is_healthy_after(6000ms));
}

TEST(LocalJob, IsGivenTheTimeThatItNeedsToStop) {
  SilentRank rank({"/bin/sleep", "1000"});
  const Clock::time_point now = Clock::now();
  rank.job().stop(SIGCONT, now, 1h);  // Which ends nobody.
  rank.job().step(now + 59min);
  EXPECT_EQ(rank.job().deadline(), now + 1h);
  rank.job().step(now + 1h);
  while (rank.job().ends_but(GlobalRank{-1}).front().stopped != SIGKILL) rank.job().step(now + 1h);
}

const std::string kBeat =
    "printf '1\\nbeat in all_reduce #7 of group dp\\n' >&$TESSERA_HEALTH_FD; ";

TEST(LocalJob, ARankWhoseHeartbeatsStopHangs) {
  SilentRank rank({"/bin/bash", "-c", kBeat + "kill -STOP $$"});
  while (!rank.is_stopped_after_a_heartbeat()) rank.wait();
  const Clock::time_point due = rank.job().deadline();
  rank.job().step(due - 1ms);
  EXPECT_EQ(rank.job().failure(), std::nullopt);
  rank.job().step(due);
  ASSERT_TRUE(rank.job().failure().has_value());
  const Failure failure = *rank.job().failure();
  EXPECT_EQ(failure.kind, Failure::Kind::kHang);
  EXPECT_NE(
      failure.message.find("it is stopped (SIGSTOP); it was last in all_reduce #7 of group dp"),
      std::string::npos)
      << failure.message;
  while (!rank.job().is_over()) {
    rank.wait();
    rank.job().step(due + 1s);
  }
  EXPECT_EQ(rank.job().ends_but(GlobalRank{-1}).front().status, SIGKILL);
}

TEST(LocalJob, ALauncherThatDidNotRunBlamesNoRank) {
  SilentRank rank({"/bin/bash", "-c", kBeat + "kill -STOP $$"});
  while (!rank.is_stopped_after_a_heartbeat()) rank.wait();
  const Clock::time_point late = rank.job().deadline() + 60s;
  rank.job().step(late);  // Heartbeats of the last minute may wait in the pipe.
  EXPECT_EQ(rank.job().failure(), std::nullopt);
  rank.job().step(late + 4s);
  EXPECT_EQ(rank.job().failure(), std::nullopt);
  rank.job().step(late + 5s);
  EXPECT_TRUE(rank.job().failure().has_value());
}

TEST(LocalJob, ProgramsWithoutHeartbeatsMayBeSilent) {
  SilentRank rank({"/bin/bash", "-c", "echo >&$TESSERA_HEALTH_FD; exec sleep 1000"});
  while (!rank.is_healthy_after(0ms)) rank.wait();
  rank.job().step(Clock::now() + 1h);
  EXPECT_EQ(rank.job().failure(), std::nullopt);
}

}  // namespace
}  // namespace tessera
