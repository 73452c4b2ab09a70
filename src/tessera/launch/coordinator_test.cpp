#include "tessera/launch/coordinator.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tessera/base/error.h"

namespace tessera {
namespace {

using std::chrono::seconds;

// A coordinator of two nodes of two ranks, and the last message to each peer.
struct Job {
  explicit Job(int64_t max_restarts = 0, std::optional<int64_t> min_nodes = {})
      : options{.command = {"true"},
                .nproc = 2,
                .nnodes = 2,
                .min_nodes = min_nodes,
                .max_restarts = max_restarts} {}

  JoinMessage join(int64_t node = -1) const {
    return {.id = options.id, .nnodes = 2, .nproc = 2, .node = node, .host = "h"};
  }
  void say(Coordinator::Peer peer, const Message& message) {
    coordinator.receive(peer, message, now);
  }
  void meet() {
    say(0, join(0));
    say(1, join());
  }
  void all_healthy(int64_t round) {
    say(0, HealthyMessage{round});
    say(1, HealthyMessage{round});
  }
  template <class Type>
  const Type& last(Coordinator::Peer peer) {
    return std::get<Type>(sent.at(peer));
  }

  LaunchOptions options;
  std::map<Coordinator::Peer, Message> sent;
  int64_t ports = 0;
  Clock::time_point now = Clock::now();
  Coordinator coordinator{
      options, [this](Coordinator::Peer peer, const Message& message) { sent[peer] = message; },
      [this] { return MasterAddress{"master", 1000 + ports++, "s"}; }, now};
};

const Failure kFailure{.host = "h", .rank = GlobalRank{3}, .exit_code = 9};

TEST(Coordinator, StartsWhenAllHaveCome) {
  Job job;
  job.say(0, job.join(0));
  EXPECT_EQ(job.last<WelcomeMessage>(0), WelcomeMessage{});
  job.say(1, job.join());
  for (const Coordinator::Peer peer : {0, 1}) {
    EXPECT_EQ(job.last<StartMessage>(peer), (StartMessage{.node = peer,
                                                          .nnodes = 2,
                                                          .master_addr = "master",
                                                          .master_port = 1000,
                                                          .secret = "s"}));
  }
}

TEST(Coordinator, EndsWhenAllAreDone) {
  Job job;
  job.meet();
  job.say(0, DoneMessage{0});
  EXPECT_FALSE(job.coordinator.is_over());
  job.say(1, DoneMessage{0});
  EXPECT_TRUE(job.coordinator.is_over());
  EXPECT_EQ(job.last<EndMessage>(1).failure, std::nullopt);
}

TEST(Coordinator, TheFirstFailureToArriveIsTheOne) {
  Job job;
  job.meet();
  job.say(1, FailedMessage{0, kFailure});
  job.say(0, FailedMessage{0, {.exit_code = 5}});
  EXPECT_EQ(job.last<StopMessage>(0).failure.exit_code, 9);
  EXPECT_EQ(job.last<StopMessage>(0).failure.node, 1) << "as node 0 knows it, not as node 1 says";
  job.say(0, StoppedMessage{0});
  EXPECT_FALSE(job.coordinator.is_over());
  job.say(1, StoppedMessage{0});
  EXPECT_EQ(job.last<EndMessage>(0).failure->code(), 9);
  EXPECT_EQ(job.last<EndMessage>(1).failure->code(), 9);
}

TEST(Coordinator, RestartsOnlyWhatWasHealthy) {
  for (const bool healthy : {false, true}) {
    Job job(1);
    job.meet();
    job.say(0, HealthyMessage{0});
    if (healthy) job.say(1, HealthyMessage{0});
    EXPECT_EQ(job.coordinator.is_healthy(), healthy);
    job.say(1, FailedMessage{0, kFailure});
    EXPECT_EQ(job.last<StopMessage>(0).verdict,
              (Verdict{.restart = healthy ? 1 : 0, .max_restarts = 1, .healthy = healthy}));
    job.say(0, StoppedMessage{0});
    job.say(1, StoppedMessage{0});
    EXPECT_EQ(job.coordinator.is_over(), !healthy);
    if (healthy) {
      EXPECT_EQ(job.last<StartMessage>(1), (StartMessage{.round = 1,
                                                         .restart = 1,
                                                         .max_restarts = 1,
                                                         .node = 1,
                                                         .nnodes = 2,
                                                         .master_addr = "master",
                                                         .master_port = 1001,
                                                         .secret = "s"}));
    }
  }
}

TEST(Coordinator, RestartsAreCounted) {
  Job job(1);
  job.meet();
  job.all_healthy(0);
  job.say(1, FailedMessage{0, kFailure});
  job.say(0, StoppedMessage{0});
  job.say(1, StoppedMessage{0});
  job.say(1, FailedMessage{0, kFailure});
  EXPECT_EQ(job.sent[0].index(), Message(StartMessage{}).index()) << "of an earlier round: ignored";
  job.all_healthy(1);
  job.say(1, FailedMessage{1, kFailure});
  EXPECT_EQ(job.last<StopMessage>(0).verdict.restart, 0);
}

TEST(Coordinator, AProgramThatWasHealthyOnceIsRestartedBeforeItIsHealthyAgain) {
  Job job(2);
  job.meet();
  job.all_healthy(0);
  for (const int64_t round : {0, 1}) {
    job.say(1, FailedMessage{round, kFailure});
    EXPECT_EQ(job.last<StopMessage>(0).verdict.restart, round + 1);
    job.say(0, StoppedMessage{round});
    job.say(1, StoppedMessage{round});
  }
  EXPECT_EQ(job.last<StartMessage>(0).restart, 2);
}

TEST(Coordinator, RanksThatSavedTheirStateAfterASignalGiveTheCodeToResume) {
  const Failure signal{.kind = Failure::Kind::kInterrupted, .signal = SIGTERM};
  for (const bool all : {false, true}) {
    Job job(3);
    job.meet();
    job.all_healthy(0);
    job.say(1, FailedMessage{0, signal});
    job.say(0, StoppedMessage{0, /*resumable=*/true});
    job.say(1, StoppedMessage{0, all});
    EXPECT_EQ(job.last<EndMessage>(0).failure->code(), all ? 75 : 143);
  }
}

TEST(Coordinator, ARankThatAsksToBeResumedEndsTheJob) {
  Job job(3);
  job.meet();
  job.all_healthy(0);
  job.say(1, FailedMessage{0, {.host = "h", .rank = GlobalRank{3}, .exit_code = 75}});
  EXPECT_EQ(job.last<StopMessage>(0).verdict.restart, 0);
  job.say(0, StoppedMessage{0});
  job.say(1, StoppedMessage{0});
  EXPECT_EQ(job.last<EndMessage>(1).failure->code(), 75);
}

TEST(Coordinator, GoesOnWithFewerNodesAndGrowsAgain) {
  Job job(1, /*min_nodes=*/1);
  job.meet();
  job.all_healthy(0);
  job.coordinator.lost(1, "gone", job.now);
  job.say(0, StoppedMessage{0});
  EXPECT_EQ(job.sent[0].index(), Message(StopMessage{}).index()) << "the node may come back";
  job.coordinator.tick(job.now + seconds(30));
  EXPECT_EQ(job.last<StartMessage>(0).nnodes, 1);
  EXPECT_EQ(job.last<StartMessage>(0).round, 1);
  job.say(2, job.join());
  EXPECT_EQ(job.last<WelcomeMessage>(2), WelcomeMessage{});
  EXPECT_EQ(job.sent[0].index(), Message(StartMessage{}).index()) << "not before it is healthy";
  job.say(0, HealthyMessage{1});
  EXPECT_EQ(job.last<StopMessage>(0).failure.kind, Failure::Kind::kResize);
  job.say(0, StoppedMessage{1});
  for (const Coordinator::Peer peer : {0, 2}) {
    EXPECT_EQ(job.last<StartMessage>(peer).nnodes, 2);
    EXPECT_EQ(job.last<StartMessage>(peer).restart, 2);
  }
  EXPECT_EQ(job.last<StartMessage>(2).node, 1);
  job.say(0, HealthyMessage{2});
  job.say(2, HealthyMessage{2});
  job.say(2, FailedMessage{2, kFailure});
  EXPECT_EQ(job.last<StopMessage>(0).verdict.restart, 0) << "one restart was used, not two";
}

TEST(Coordinator, NodesOfASmallerRoundHaveNoGaps) {
  Job job(1, /*min_nodes=*/2);
  job.options.nnodes = 3;
  std::map<Coordinator::Peer, Message> sent;
  Coordinator three(
      job.options, [&](Coordinator::Peer peer, const Message& message) { sent[peer] = message; },
      [] { return MasterAddress{"m", 1}; }, job.now);
  JoinMessage join = job.join();
  join.nnodes = 3;
  for (const Coordinator::Peer peer : {0, 1, 2}) three.receive(peer, join, job.now);
  for (const Coordinator::Peer peer : {0, 1, 2}) three.receive(peer, HealthyMessage{0}, job.now);
  three.lost(1, "gone", job.now);
  for (const Coordinator::Peer peer : {0, 2}) three.receive(peer, StoppedMessage{0}, job.now);
  three.tick(job.now + seconds(30));
  EXPECT_EQ(std::get<StartMessage>(sent[2]).node, 1);
  EXPECT_EQ(std::get<StartMessage>(sent[2]).nnodes, 2);
}

TEST(Coordinator, ALostNodeMayComeBackWhereARestartIsLeft) {
  Job job(1);
  job.meet();
  job.all_healthy(0);
  job.say(2, job.join());
  EXPECT_TRUE(job.last<RefuseMessage>(2).later) << "the job is complete";
  job.coordinator.lost(1, "gone", job.now);
  EXPECT_EQ(job.last<StopMessage>(0).failure.kind, Failure::Kind::kNodeLost);
  job.say(3, job.join());
  EXPECT_TRUE(job.last<RefuseMessage>(3).later) << "the others still stop";
  job.say(0, StoppedMessage{0});
  job.say(4, job.join());
  EXPECT_EQ(job.last<StartMessage>(4).node, 1);
  EXPECT_EQ(job.last<StartMessage>(4).restart, 1);
}

TEST(Coordinator, ALostNodeThatWasNotHealthyEndsTheJob) {
  Job job(1);
  job.meet();
  job.say(0, HealthyMessage{0});
  job.coordinator.lost(1, "gone", job.now);
  EXPECT_FALSE(job.last<StopMessage>(0).verdict.healthy);
  job.say(0, StoppedMessage{0});
  EXPECT_EQ(job.last<EndMessage>(0).failure->code(), 1);
}

TEST(Coordinator, RendezvousTimesOut) {
  Job job(1);
  job.say(0, job.join(0));
  job.coordinator.tick(job.now + seconds(299));
  EXPECT_FALSE(job.coordinator.is_over());
  job.coordinator.tick(job.now + seconds(300));
  EXPECT_EQ(job.last<EndMessage>(0).failure->kind, Failure::Kind::kRendezvous);
  Job again(1);
  again.meet();
  again.all_healthy(0);
  again.coordinator.lost(1, "gone", again.now);
  again.say(0, StoppedMessage{0});
  again.coordinator.tick(again.now + seconds(29));
  EXPECT_FALSE(again.coordinator.is_over());
  again.coordinator.tick(again.now + seconds(30));
  EXPECT_EQ(again.last<EndMessage>(0).failure->message,
            "gone; 1 of 2 nodes joined within 30 s; missing: node 1");
}

TEST(Coordinator, AnInterruptEndsWhateverGoesOn) {
  const Failure signal{.kind = Failure::Kind::kInterrupted, .signal = SIGINT};
  Job rendezvous;
  rendezvous.say(0, rendezvous.join(0));
  rendezvous.say(0, FailedMessage{0, signal});
  EXPECT_EQ(rendezvous.last<EndMessage>(0).failure->code(), 130);
  Job stopping(3);
  stopping.meet();
  stopping.all_healthy(0);
  stopping.say(1, FailedMessage{0, kFailure});
  stopping.say(0, FailedMessage{0, signal});
  stopping.say(0, StoppedMessage{0});
  stopping.say(1, StoppedMessage{0});
  EXPECT_EQ(stopping.last<EndMessage>(1).failure->code(), 130);
}

TEST(Coordinator, WrongSizesEndARendezvousButNotAJob) {
  Job job(1);
  job.say(0, job.join(0));
  JoinMessage wrong = job.join();
  wrong.nproc = 3;
  job.say(1, wrong);
  EXPECT_FALSE(job.last<RefuseMessage>(1).later);
  EXPECT_EQ(job.last<EndMessage>(0).failure->code(), 2);
  Job running(1);
  running.meet();
  running.say(2, wrong);
  EXPECT_FALSE(running.last<RefuseMessage>(2).later);
  EXPECT_FALSE(running.coordinator.is_over());
}

TEST(Coordinator, NumbersAreGivenInTheOrderOfArrivalAroundThoseThatWereChosen) {
  Job job;
  job.options.nnodes = 4;
  std::map<Coordinator::Peer, Message> sent;
  Coordinator four(
      job.options, [&](Coordinator::Peer peer, const Message& message) { sent[peer] = message; },
      [] { return MasterAddress{"m", 1}; }, job.now);
  const auto come = [&](Coordinator::Peer peer, int64_t node) {
    JoinMessage join = job.join(node);
    join.nnodes = 4;
    four.receive(peer, join, job.now);
  };
  come(0, 0);
  come(1, -1);
  come(2, 1);
  come(5, 1);
  EXPECT_FALSE(std::get<RefuseMessage>(sent[5]).later) << "taken";
  come(3, -1);
  EXPECT_EQ(std::get<StartMessage>(sent[1]).node, 2);
  EXPECT_EQ(std::get<StartMessage>(sent[2]).node, 1);
  EXPECT_EQ(std::get<StartMessage>(sent[3]).node, 3);
}

TEST(Coordinator, RefusesWhatAMemberMustNotSay) {
  Job job;
  EXPECT_THROW(job.say(1, HealthyMessage{0}), CommError) << "before it joined";
  job.meet();
  EXPECT_THROW(job.say(1, job.join()), CommError) << "twice";
  EXPECT_THROW(job.say(1, EndMessage{}), CommError);
  EXPECT_NO_THROW(job.say(7, PingMessage{}));
}

}  // namespace
}  // namespace tessera
