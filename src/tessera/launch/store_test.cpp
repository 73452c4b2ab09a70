// A store and its clients, over both kinds of sockets.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <thread>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/launch/socket.h"
#include "tessera/launch/store_client.h"
#include "tessera/launch/store_server.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testkit::message_of;

constexpr milliseconds kLong{20'000};

int64_t free_port() {
  return PortReservation("127.0.0.1").port();
}

StoreFrame ok(std::vector<std::string> fields = {}) {
  return {.op = StoreOp::kOk, .fields = std::move(fields)};
}

class StoreTest : public testing::TestWithParam<bool> {
 protected:
  StoreFrame ask(StoreOp op, std::vector<std::string> fields = {}) {
    return client_.ask({.op = op, .fields = std::move(fields)}, kLong);
  }

  const StoreAddress address_ = GetParam() ? StoreAddress::on_this_host(free_port())
                                           : StoreAddress::on_network("127.0.0.1", free_port());
  StoreServer server_{address_, "secret"};
  StoreClient client_{address_, "secret", kLong};
};

TEST_P(StoreTest, KeepsWhatItIsGiven) {
  const std::string binary("a\0b\xff", 4);
  EXPECT_EQ(ask(StoreOp::kSet, {"a", binary, "b", ""}), ok());
  EXPECT_EQ(ask(StoreOp::kGet, {"0", "b", "a"}), ok({"", binary}));
  EXPECT_EQ(ask(StoreOp::kAppend, {"a", "!"}), ok());
  EXPECT_EQ(ask(StoreOp::kGet, {"0", "a"}), ok({binary + "!"}));
  EXPECT_EQ(ask(StoreOp::kCheck, {"a", "b"}), ok({"1"}));
  EXPECT_EQ(ask(StoreOp::kCheck, {"a", "c"}), ok({"0"}));
  EXPECT_EQ(ask(StoreOp::kCount), ok({"2"}));
  EXPECT_EQ(ask(StoreOp::kDelete, {"a"}), ok({"1"}));
  EXPECT_EQ(ask(StoreOp::kDelete, {"a"}), ok({"0"}));
}

TEST_P(StoreTest, AddsAndComparesAsTheStoresOfC10d) {
  EXPECT_EQ(ask(StoreOp::kAdd, {"n", "2"}), ok({"2"}));
  EXPECT_EQ(ask(StoreOp::kAdd, {"n", "-5"}), ok({"-3"}));
  EXPECT_EQ(ask(StoreOp::kCompareSet, {"x", "", "first"}), ok({"first"}));
  EXPECT_EQ(ask(StoreOp::kCompareSet, {"x", "", "second"}), ok({"first"}));
  EXPECT_EQ(ask(StoreOp::kCompareSet, {"x", "first", "second"}), ok({"second"}));
  EXPECT_EQ(ask(StoreOp::kCompareSet, {"y", "other", "second"}), ok({"other"}));
  EXPECT_EQ(ask(StoreOp::kAdd, {"x", "1"}).op, StoreOp::kRefused);
  EXPECT_EQ(ask(StoreOp::kAdd, {"n", "9223372036854775807"}), ok({"9223372036854775804"}));
  EXPECT_EQ(ask(StoreOp::kAdd, {"n", "100"}).op, StoreOp::kRefused) << "beyond 64 bits";
}

TEST_P(StoreTest, WaitsForKeysAndTellsWhenTheyDoNotCome) {
  EXPECT_EQ(ask(StoreOp::kWait, {"20", "later"}).op, StoreOp::kTimeout);
  StoreFrame found;
  std::thread waiting([&] {
    StoreClient other(address_, "secret", kLong);
    found = other.ask({.op = StoreOp::kGet, .fields = {"20000", "one", "two"}}, kLong);
  });
  EXPECT_EQ(ask(StoreOp::kSet, {"two", "2"}), ok());
  EXPECT_EQ(ask(StoreOp::kSet, {"one", "1"}), ok());
  waiting.join();
  EXPECT_EQ(found, ok({"1", "2"}));
}

TEST_P(StoreTest, LargeValuesPass) {
  const std::string large(5'000'000, 'x');
  EXPECT_EQ(ask(StoreOp::kSet, {"large", large}), ok());
  EXPECT_EQ(ask(StoreOp::kGet, {"0", "large", "large"}), ok({large, large}));
}

TEST_P(StoreTest, HalfARequestHoldsNobodyUp) {
  const auto connect = [&] { return address_.connect(Clock::now() + kLong); };
  const Descriptor silent = connect();
  const Descriptor half = connect();
  ASSERT_EQ(write(half.get(), "\x10\0", 2), 2);
  const std::string hello =
      to_bytes({.op = StoreOp::kHello, .fields = {std::string(kStoreVersion), "secret"}});
  const Descriptor member = connect();
  ASSERT_EQ(write(member.get(), hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  ASSERT_EQ(write(member.get(), "\x10\0\0", 3), 3);
  EXPECT_EQ(ask(StoreOp::kSet, {"a", "b"}), ok());
  EXPECT_EQ(StoreClient(address_, "secret", kLong).ask({.op = StoreOp::kCount}, kLong), ok({"1"}));
}

// Reads until the other end hangs up; false if it does not.
bool hangs_up(const Descriptor& socket) {
  pollfd waiting{.fd = socket.get(), .events = POLLIN, .revents = 0};
  std::array<char, 256> bytes{};
  while (poll(&waiting, 1, static_cast<int>(kLong.count())) == 1) {
    if (recv(socket.get(), bytes.data(), bytes.size(), 0) <= 0) return true;
  }
  return false;
}

TEST_P(StoreTest, StrangersAreDropped) {
  const Descriptor browser = address_.connect(Clock::now() + kLong);
  ASSERT_EQ(write(browser.get(), "GET / HTTP/1.1\r\n\r\n", 18), 18);
  EXPECT_TRUE(hangs_up(browser));
  const std::string request = to_bytes({.op = StoreOp::kSet, .fields = {"a", "b"}});
  const Descriptor hasty = address_.connect(Clock::now() + kLong);
  ASSERT_EQ(write(hasty.get(), request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  EXPECT_TRUE(hangs_up(hasty)) << "no request without a hello";
  EXPECT_EQ(ask(StoreOp::kCount), ok({"0"}));
}

TEST_P(StoreTest, ManyStrangersTakeEachOthersPlace) {
  std::vector<Descriptor> strangers;
  for (size_t i = 0; i < StoreServer::kMostStrangers + 10; ++i) {
    strangers.push_back(address_.connect(Clock::now() + kLong));
  }
  EXPECT_EQ(StoreClient(address_, "secret", kLong).ask({.op = StoreOp::kCount}, kLong), ok({"0"}));
  EXPECT_TRUE(hangs_up(strangers.front()));
}

TEST_P(StoreTest, AnotherSecretIsRefused) {
  EXPECT_NE(message_of<ConfigError>([&] {
              StoreClient(address_, "secreT", kLong);
            }).find("give every rank of the job the same TESSERA_JOB_SECRET"),
            std::string::npos);
}

TEST_P(StoreTest, TwoCannotListenAtOneAddress) {
  EXPECT_THROW(StoreServer(address_, ""), ConfigError);
}

INSTANTIATE_TEST_SUITE_P(Sockets, StoreTest, testing::Values(true, false),
                         [](const auto& info) { return info.param ? "OnThisHost" : "OnNetwork"; });

// The attempt of another user of the same host who knows the name, the protocol and the secret.
TEST(Store, OtherUsersOfTheHostAreHungUpOn) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  constexpr uid_t kNobody = 65534;
  const int64_t port = free_port();
  const StoreServer server(StoreAddress::on_this_host(port), "secret");
  const std::string name = concat("tessera-store-0-", port);
  const std::string hello =
      to_bytes({.op = StoreOp::kHello, .fields = {std::string(kStoreVersion), "secret"}});
  const pid_t child = fork();
  if (child == 0) {  // Only system calls from here on.
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    char byte = 0;
    if (setuid(kNobody) != 0) _exit(1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0) _exit(2);
    (void)!send(socket, hello.data(), hello.size(), MSG_NOSIGNAL);
    _exit(recv(socket, &byte, 1, 0) <= 0 ? 0 : 3);  // Any answer would be an intrusion.
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Store, AServerThatIsGoneIsToldAtOnce) {
  const auto address = StoreAddress::on_this_host(free_port());
  auto server = std::make_unique<StoreServer>(address, "");
  StoreClient client(address, "", kLong);
  server.reset();
  const auto ask = [&] { (void)client.ask({.op = StoreOp::kCount}, kLong); };
  EXPECT_NE(message_of<CommError>(ask).find("is gone"), std::string::npos);
  EXPECT_NE(message_of<CommError>(ask).find("was lost before"), std::string::npos);
  EXPECT_THROW(StoreClient(address, "", milliseconds(50)), CommError);
}

}  // namespace
}  // namespace tessera
