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
      StoppedMessage{3, true},
      EndMessage{},
      EndMessage{failure()},
      PingMessage{}};
  for (const Message& message : messages)
    EXPECT_EQ(round_trip(message), message) << encode(message);
}

TEST(RendezvousProtocol, IsReadable) {
  EXPECT_EQ(encode(JoinMessage{.id = "job 7", .nnodes = 2, .nproc = 8, .host = "gpu07"}),
            R"({"type":"join","version":4,"id":"job 7","nnodes":2,"nproc":8,"node":-1,)"
            R"("host":"gpu07"})"
            "\n");
  EXPECT_EQ(encode(PingMessage{}), "{\"type\":\"ping\"}\n");
}

TEST(RendezvousProtocol, IsPrintableAscii) {
  const std::string line = encode(RefuseMessage{"a\x1b\xc3\xa4\xff", false});
  EXPECT_EQ(line, R"({"type":"refuse","reason":"a\u001b\u00e4\ufffd","later":false})"
                  "\n");
  EXPECT_EQ(round_trip(RefuseMessage{"\xff", false}),
            Message(RefuseMessage{"\xef\xbf\xbd", false}));
}

TEST(RendezvousProtocol, ATextIsCutBetweenCharacters) {
  std::string text = "x";
  while (text.size() < 3000) text += "\xc3\xa4";
  EXPECT_EQ(round_trip(RefuseMessage{text, false}),
            Message(RefuseMessage{text.substr(0, 1999), false}));
}

TEST(RendezvousProtocol, LongTextsAreCutToTheLimit) {
  Failure large = failure();
  large.message = std::string(100'000, '\x01');
  large.host = std::string(100'000, '\x7f');
  large.tail_name = std::string(100'000, '\xff');
  large.tail = std::vector<std::string>(1000, std::string(1000, '\x01'));
  const std::string line = encode(StopMessage{0, large, {}});
  EXPECT_LT(line.size(), kLongestMessage);
  EXPECT_NO_THROW(decode(std::string_view(line).substr(0, line.size() - 1)));
}

TEST(RendezvousProtocol, RefusesEverythingElse) {
  for (const char* line : {"",
                           " ",
                           "hello",
                           "ping",
                           "null",
                           "3",
                           "[]",
                           "{}",
                           R"("ping")",
                           R"({"type": 1})",
                           R"({"type": "PING"})",
                           R"({"type": "ping", "x": 1})",
                           R"({"type": "ping"} x)",
                           R"({"type": "ping", "type": "ping"})",
                           R"({"type": "ping")",
                           R"({"type": "healthy"})",
                           R"({"type": "healthy", "round": "1"})",
                           R"({"type": "healthy", "round": 1.5})",
                           R"({"type": "healthy", "round": -1})",
                           R"({"type": "healthy", "round": null})",
                           R"({"type": "healthy", "round": 1, "round": 1})",
                           R"({"type": "healthy", "round": 99999999999999999999})",
                           R"({"type": "healthy", "round": 1, "more": 2})",
                           R"({"type": "refuse", "reason": "x", "later": 1})",
                           R"({"type": "refuse", "reason": ["x"], "later": true})",
                           "{\"type\": \"refuse\", \"reason\": \"\xff\", \"later\": true}",
                           R"({"type": "start", "round": 0})",
                           R"({"type": "end", "failure": 1})",
                           R"({"type": "end", "failure": null})",
                           R"({"type": "end", "failure": {"kind": 0}})",
                           R"({"type": "end", "failure": {"kind": 9}})",
                           R"({"type": "end", "failure": {"tail": [[[]]]}})"}) {
    EXPECT_THROW(decode(line), CommError) << line;
  }
  EXPECT_THROW(decode(std::string(kLongestMessage, ' ')), CommError);
  EXPECT_THROW(decode(std::string(kLongestMessage - 1, '[')), CommError);
}

}  // namespace
}  // namespace tessera
