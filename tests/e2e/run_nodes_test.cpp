// `tessera run` with a launcher for each of several nodes, all on this host.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "tessera/base/text.h"
#include "tessera/launch/socket.h"
#include "tests/testkit/background.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::Background;
using testkit::Finished;
using Words = std::vector<std::string>;

constexpr const char* kTellHealth = "echo >&$TESSERA_HEALTH_FD; ";
constexpr const char* kWait = "exec sleep 1000";

// Whatever lines the text is broken into.
bool has(const std::string& text, const std::string& part) {
  std::string flat;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    if (!space || !flat.ends_with(' ')) flat += space ? ' ' : c;
  }
  return flat.find(part) != std::string::npos;
}

// Launchers that meet at a port of their own.
class RunNodes : public testing::Test {
 protected:
  using Launcher = std::unique_ptr<Background>;

  std::string endpoint() const { return concat("127.0.0.1:", port_.port()); }

  Launcher start(const Words& flags, const std::string& script) const {
    Words words{TESSERA_PROGRAM, "run", "--rdzv-endpoint", endpoint(), "--nnodes", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "bash", "-c", script});
    return std::make_unique<Background>(words);
  }

  // Ends both, and expects the same exit code and nobody left.
  void expect_both(Background& a, Background& b, int code) const {
    const Finished end_a = a.finish();
    const Finished end_b = b.finish();
    EXPECT_EQ(end_a.code, code) << end_a.out << end_a.err;
    EXPECT_EQ(end_b.code, code) << end_b.out << end_b.err;
    EXPECT_TRUE(a.leaves_nobody());
    EXPECT_TRUE(b.leaves_nobody());
  }

  // A connection to the port that sends these bytes; closed by the caller.
  int connect_and_send(const std::string& bytes) const {
    const int stranger = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = loopback(port_.port());
    // Until the coordinator listens.
    while (connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      usleep(5000);
    EXPECT_EQ(send(stranger, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
    return stranger;
  }

  // Waits until node 0 knows that all ranks are healthy: then it holds the master's port no more.
  static void await_healthy(const Background& node_0) {
    const std::string& out = node_0.seen().out;
    const std::string mark = "port ";
    sockaddr_in address = loopback(std::stoi(out.substr(out.rfind(mark) + mark.size())));
    const int probe = socket(AF_INET, SOCK_STREAM, 0);
    while (bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) usleep(5000);
    close(probe);
  }

  static sockaddr_in loopback(int64_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    return address;
  }

  // What the coordinator answers, up to the end of the connection.
  static std::string answer_to(int stranger) {
    std::string text;
    char byte = 0;
    while (recv(stranger, &byte, 1, 0) == 1) text += byte;
    close(stranger);
    return text;
  }

  const PortReservation port_{"127.0.0.1"};
};

constexpr const char* kPlace =
    "echo node $GROUP_RANK of $GROUP_WORLD_SIZE local $LOCAL_RANK rank $RANK of $WORLD_SIZE at "
    "$MASTER_ADDR";

TEST_F(RunNodes, RanksAreNumberedAcrossNodes) {
  const Launcher first = start({"--nproc", "2", "--node-rank", "0"}, kPlace);
  const Launcher second = start({"--nproc", "2", "--node-rank", "1"}, kPlace);
  expect_both(*first, *second, 0);
  for (const char* line : {"[0] node 0 of 2 local 0 rank 0 of 4 at 127.0.0.1 ",
                           "[1] node 0 of 2 local 1 rank 1 of 4 at 127.0.0.1 "}) {
    EXPECT_TRUE(has(first->seen().out, line)) << first->seen().out;
  }
  for (const char* line : {"[2] node 1 of 2 local 0 rank 2 of 4 at 127.0.0.1 ",
                           "[3] node 1 of 2 local 1 rank 3 of 4 at 127.0.0.1 "}) {
    EXPECT_TRUE(has(second->seen().out, line)) << second->seen().out;
  }
}

TEST_F(RunNodes, WithoutNumbersWhoListensIsNodeZero) {
  const Launcher first = start({}, "echo node $GROUP_RANK port $MASTER_PORT");
  const Launcher second = start({}, "echo node $GROUP_RANK port $MASTER_PORT");
  expect_both(*first, *second, 0);
  const std::string together = first->seen().out + second->seen().out;
  EXPECT_TRUE(has(together, "[0] node 0 port ")) << together;
  EXPECT_TRUE(has(together, "[1] node 1 port ")) << together;
  EXPECT_EQ(together.substr(together.find("port"), 10),
            together.substr(together.rfind("port"), 10));
}

TEST_F(RunNodes, AFailureStopsAllAndIsNamedByAll) {
  const std::string script =
      "[[ $RANK == 3 ]] && { sleep 0.3; echo boom >&2; exit 9; }; " + std::string(kWait);
  const Launcher first = start({"--nproc", "2", "--node-rank", "0"}, script);
  const Launcher second = start({"--nproc", "2", "--node-rank", "1"}, script);
  expect_both(*first, *second, 9);
  for (const Background* launcher : {first.get(), second.get()}) {
    EXPECT_TRUE(has(launcher->seen().err, "rank 3 of node 1 on host ")) << launcher->seen().err;
    EXPECT_TRUE(has(launcher->seen().err, "│ boom")) << launcher->seen().err;
  }
  EXPECT_TRUE(has(first->seen().err, "ranks 0,1 stopped with SIGTERM")) << first->seen().err;
}

TEST_F(RunNodes, AllNodesRestartTogether) {
  const std::string go = concat(testing::TempDir(), "restart-together-", getpid());
  const std::string script = concat(
      "echo restart $TORCHELASTIC_RESTART_COUNT node $GROUP_RANK port $MASTER_PORT; ", kTellHealth,
      "[[ $TORCHELASTIC_RESTART_COUNT == 1 ]] && exit 0; ", "[[ $RANK == 1 ]] && { until [[ -e ",
      go, " ]]; do sleep 0.01; done; exit 9; }; ", kWait);
  const Launcher first = start({"--max-restarts", "1", "--node-rank", "0"}, script);
  const Launcher second = start({"--max-restarts", "1", "--node-rank", "1"}, script);
  first->await("port");
  await_healthy(*first);
  std::ofstream(go).put('\n');
  expect_both(*first, *second, 0);
  std::remove(go.c_str());
  for (const char* restart : {"0", "1"}) {
    EXPECT_TRUE(has(first->seen().out, concat("[0] restart ", restart, " node 0 port")));
    EXPECT_TRUE(has(second->seen().out, concat("[1] restart ", restart, " node 1 port")));
  }
}

TEST_F(RunNodes, NoRestartWhereOneNodeWasNotHealthy) {
  const std::string script =
      concat("[[ $RANK == 1 ]] && { sleep 0.5; exit 9; }; ", kTellHealth, kWait);
  const Launcher first = start({"--max-restarts", "1", "--node-rank", "0"}, script);
  const Launcher second = start({"--max-restarts", "1", "--node-rank", "1"}, script);
  expect_both(*first, *second, 9);
  EXPECT_TRUE(has(first->seen().err, "No restart: the job failed before all ranks had connected"))
      << first->seen().err;
  EXPECT_FALSE(has(first->seen().err, "Restarting")) << first->seen().err;
}

TEST_F(RunNodes, ASignalAtOneNodeEndsAll) {
  const Launcher first = start({"--node-rank", "0"}, concat("echo ready; ", kWait));
  const Launcher second = start({"--node-rank", "1"}, concat("echo ready; ", kWait));
  first->await("ready");
  second->await("ready");
  second->signal(SIGINT);
  expect_both(*first, *second, 128 + SIGINT);
  EXPECT_TRUE(has(first->seen().err, "SIGINT at the launcher of node 1 on host "))
      << first->seen().err;
}

TEST_F(RunNodes, AnotherJobsLauncherIsRefusedAndTheJobGoesOn) {
  const Launcher first = start({"--rdzv-id", "mine", "--node-rank", "0"}, kPlace);
  const Launcher stranger = start({"--rdzv-id", "yours", "--node-rank", "1"}, kPlace);
  EXPECT_EQ(stranger->finish().code, 2);
  EXPECT_TRUE(has(stranger->seen().err,
                  "its --rdzv-id is 'yours', but this endpoint belongs to another job"))
      << stranger->seen().err;
  const Launcher second = start({"--rdzv-id", "mine", "--node-rank", "1"}, kPlace);
  expect_both(*first, *second, 0);
}

TEST_F(RunNodes, DifferentSizesAreRefusedOnAllNodes) {
  const Launcher first = start({"--nproc", "1", "--node-rank", "0"}, kPlace);
  const Launcher second = start({"--nproc", "2", "--node-rank", "1"}, kPlace);
  expect_both(*first, *second, 2);
  for (const Background* launcher : {first.get(), second.get()}) {
    EXPECT_TRUE(has(launcher->seen().err, "has --nproc 2, node 0 has --nproc 1;"))
        << launcher->seen().err;
  }
}

TEST_F(RunNodes, TheSameNumberTwiceIsRefused) {
  const Launcher first = start({"--node-rank", "0"}, kPlace);
  close(connect_and_send(""));  // It listens.
  const Launcher twin = start({"--node-rank", "0"}, kPlace);
  EXPECT_EQ(twin->finish().code, 2);
  EXPECT_TRUE(has(twin->seen().err, "node 0 cannot listen at --rdzv-endpoint")) << twin->seen().err;
  const Launcher second = start({"--node-rank", "1"}, kPlace);
  expect_both(*first, *second, 0);
}

TEST_F(RunNodes, GarbageOnThePortHarmsNobody) {
  const testkit::TemporaryFolder folder;
  const std::string go = folder.path("go");
  const std::string script =
      concat("echo ready; ", kTellHealth, "until [[ -e ", go, " ]]; do sleep 0.01; done");
  const Launcher first = start({"--node-rank", "0"}, script);
  EXPECT_EQ(answer_to(connect_and_send("GET / HTTP/1.1\r\n\r\n")), "");
  EXPECT_EQ(answer_to(connect_and_send(std::string(100000, 'x'))), "");
  EXPECT_EQ(answer_to(connect_and_send(R"({"type":"healthy","round":0})"
                                       "\n")),
            "")
      << "it did not join";
  EXPECT_TRUE(has(answer_to(connect_and_send(
                      R"({"type":"join","version":5,"id":"none","nnodes":2,"nproc":1,"node":-1,)"
                      R"("host":"h"})"
                      "\n")),
                  R"({"type":"refuse","reason":"it has version 5)"));
  const int silent = connect_and_send("");
  const Launcher second = start({"--node-rank", "1"}, script);
  first->await("ready");
  EXPECT_EQ(answer_to(connect_and_send("{\"type\":\"stop\"}\n\xff\xfe")), "");
  std::ofstream(go).put('\n');
  expect_both(*first, *second, 0);
  close(silent);
}

TEST_F(RunNodes, ItListensAtOneAddressAlone) {
  const Launcher first = start({"--node-rank", "0"}, kPlace);
  close(connect_and_send(""));
  const Finished sockets = testkit::run(concat("ss -Hltn 'sport = :", port_.port(), "'"));
  EXPECT_TRUE(has(sockets.out, endpoint())) << sockets.out;
  EXPECT_FALSE(has(sockets.out, "0.0.0.0:" + std::to_string(port_.port()))) << sockets.out;
  first->signal(SIGTERM);
  EXPECT_EQ(first->finish().code, 128 + SIGTERM);
}

TEST_F(RunNodes, WhoDoesNotComeIsNotWaitedForForEver) {
  const Launcher first = start({"--node-rank", "0", "--rdzv-timeout", "0.5"}, kPlace);
  EXPECT_EQ(first->finish().code, 1);
  EXPECT_TRUE(has(first->seen().err, "1 of 2 nodes joined within 0.5 s; missing: node 1"))
      << first->seen().err;
  const Launcher second = start({"--node-rank", "1", "--rdzv-timeout", "0.5"}, kPlace);
  EXPECT_EQ(second->finish().code, 1);
  EXPECT_TRUE(has(second->seen().err, "did not admit this launcher within 0.5 s"))
      << second->seen().err;
}

TEST_F(RunNodes, ALostNodeEndsTheJob) {
  const Launcher first = start({"--node-rank", "0"}, concat("echo ready; ", kWait));
  const Launcher second = start({"--node-rank", "1"}, concat("echo ready; ", kWait));
  first->await("ready");
  second->await("ready");
  second->signal(SIGKILL);
  EXPECT_EQ(first->finish().code, 1);
  EXPECT_TRUE(has(first->seen().err, "node 1 on host ")) << first->seen().err;
  EXPECT_TRUE(has(first->seen().err, " is lost")) << first->seen().err;
  EXPECT_TRUE(first->leaves_nobody());
  EXPECT_TRUE(second->leaves_nobody());
}

TEST_F(RunNodes, ALostCoordinatorEndsTheOthers) {
  const Launcher first = start({"--node-rank", "0", "--max-restarts", "3"},
                               concat("echo ready; ", kTellHealth, kWait));
  const Launcher second = start({"--node-rank", "1", "--max-restarts", "3"},
                                concat("echo ready; ", kTellHealth, kWait));
  first->await("ready");
  second->await("ready");
  first->signal(SIGKILL);
  EXPECT_EQ(second->finish().code, 1);
  EXPECT_TRUE(has(second->seen().err, "the launcher of node 0 at 127.0.0.1:"))
      << second->seen().err;
  EXPECT_TRUE(second->leaves_nobody());
  EXPECT_TRUE(first->leaves_nobody());
}

// Kills node 1 as often as there are restarts, and once more: a launcher that is there at once does
// not help.
TEST_F(RunNodes, ALostNodeMayComeBackAsOftenAsThereAreRestarts) {
  const std::string script =
      concat("echo start $TORCHELASTIC_RESTART_COUNT port $MASTER_PORT; ", kTellHealth, kWait);
  const Words flags{"--max-restarts", "1", "--rdzv-timeout", "20"};
  const auto node = [&](const std::string& number) {
    Words all = flags;
    all.insert(all.end(), {"--node-rank", number});
    return start(all, script);
  };
  const Launcher first = node("0");
  const Launcher second = node("1");
  first->await("start 0 port");
  second->await("start 0 port");
  await_healthy(*first);
  second->signal(SIGKILL);
  const Launcher third = node("1");
  third->await("start 1 port");
  first->await("start 1 port");
  await_healthy(*first);
  third->signal(SIGKILL);
  EXPECT_EQ(first->finish().code, 1);
  EXPECT_TRUE(has(first->seen().err, "restart 1 of 1.")) << first->seen().err;
  EXPECT_TRUE(has(first->seen().err, "No restarts left")) << first->seen().err;
  for (Background* launcher : {first.get(), second.get(), third.get()})
    EXPECT_TRUE(launcher->leaves_nobody());
}

TEST_F(RunNodes, ANodeThatDoesNotComeBackEndsTheJob) {
  const std::string script = concat("echo start port $MASTER_PORT; ", kTellHealth, kWait);
  const Launcher first =
      start({"--node-rank", "0", "--max-restarts", "1", "--rejoin-timeout", "0.5"}, script);
  const Launcher second = start({"--node-rank", "1", "--max-restarts", "1"}, script);
  first->await("start port");
  second->await("start port");
  await_healthy(*first);
  second->signal(SIGKILL);
  EXPECT_EQ(first->finish().code, 1);
  EXPECT_TRUE(has(first->seen().err, "1 of 2 nodes joined within 0.5 s; missing: node 1"))
      << first->seen().err;
}

}  // namespace
}  // namespace tessera
