#include "tessera/launch/rendezvous_protocol.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tessera/base/error.h"

namespace tessera {
namespace {

Failure failure() {
  return {.kind = Failure::Kind::kRank,
          .node = 1,
          .host = "gpu 07\n",
          .rank = GlobalRank{12},
          .exit_code = 3,
          .signal = SIGSEGV,
          .message = "100 % of =%0A\xc3\xa4",
          .tail_name = "stderr",
          .tail = {"a b", "c=d"}};
}

Message round_trip(const Message& message) {
  std::string line = encode(message);
  EXPECT_TRUE(line.ends_with('\n'));
  line.pop_back();
  EXPECT_EQ(line.find('\n'), std::string::npos);
  return decode(line);
}

TEST(RendezvousProtocol, EveryMessageComesBack) {
  const std::vector<Message> messages{
      JoinMessage{.id = "job 7", .nnodes = 2, .nproc = 8, .node = -1, .host = "h"},
      WelcomeMessage{},
      RefuseMessage{"no=reason", true},
      StartMessage{.round = 3,
                   .restart = 3,
                   .max_restarts = 5,
                   .node = 1,
                   .master_addr = "fe80::1",
                   .master_port = 29500,
                   .secret = "s"},
      HealthyMessage{3},
      FailedMessage{3, failure()},
      DoneMessage{3},
      StopMessage{3, failure(), {.restart = 1, .max_restarts = 2, .healthy = false}},
      StoppedMessage{3},
      EndMessage{},
      EndMessage{failure()},
      PingMessage{}};
  for (const Message& message : messages)
    EXPECT_EQ(round_trip(message), message) << encode(message);
}

TEST(RendezvousProtocol, IsReadable) {
  EXPECT_EQ(encode(JoinMessage{.id = "job 7", .nnodes = 2, .nproc = 8, .host = "gpu07"}),
            "join version=2 id=job%207 nnodes=2 nproc=8 node=-1 host=gpu07\n");
  EXPECT_EQ(encode(PingMessage{}), "ping\n");
}

TEST(RendezvousProtocol, LongTextsAreCutToTheLimit) {
  Failure large = failure();
  large.message = std::string(100'000, '\n');
  large.host = std::string(100'000, ' ');
  large.tail = std::vector<std::string>(1000, std::string(1000, '%'));
  const std::string line = encode(StopMessage{0, large, {}});
  EXPECT_LT(line.size(), kLongestMessage);
  EXPECT_NO_THROW(decode(std::string_view(line).substr(0, line.size() - 1)));
}

TEST(RendezvousProtocol, RefusesEverythingElse) {
  for (const char* line : {"",
                           " ",
                           "hello",
                           "PING",
                           "ping ",
                           " ping",
                           "ping  ",
                           "ping x=1",
                           "healthy",
                           "healthy round",
                           "healthy round=",
                           "healthy round=-1",
                           "healthy round=1 round=1",
                           "healthy round=99999999999999999999",
                           "healthy round=1 more=2",
                           "healthy =1",
                           "refuse reason=a b later=0",
                           "refuse reason=%4 later=0",
                           "refuse reason=%zz later=0",
                           "refuse reason=%4a later=0",
                           "refuse reason=\xff later=0",
                           "refuse reason=x later=2",
                           "start round=0",
                           "end kind=9",
                           "end kind=0",
                           "ping\r"}) {
    EXPECT_THROW(decode(line), CommError) << line;
  }
  EXPECT_THROW(decode("refuse later=0 reason=" + std::string(5000, 'x')), CommError);
  EXPECT_THROW(decode(std::string(kLongestMessage, 'x')), CommError);
}

}  // namespace
}  // namespace tessera
