#include "tessera/launch/options.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testkit::message_of;

TEST(LaunchOptions, EndpointsHaveAHostAndMayHaveAPort) {
  EXPECT_EQ(parse_endpoint("node0"), (Endpoint{"node0", 29400}));
  EXPECT_EQ(parse_endpoint("10.0.0.1:7000"), (Endpoint{"10.0.0.1", 7000}));
  EXPECT_EQ(parse_endpoint("[fe80::1]:7000"), (Endpoint{"fe80::1", 7000}));
  EXPECT_EQ(parse_endpoint("[::1]"), (Endpoint{"::1", 29400}));
  for (const char* text :
       {"", ":7000", "[]:7", "[::1", "[::1]7", "h:", "h:0", "h:65536", "h:x", "a:b:c"}) {
    EXPECT_THROW(parse_endpoint(text), ConfigError) << text;
  }
}

TEST(LaunchOptions, NumbersOfNodes) {
  LaunchOptions options;
  set_nnodes("2", options);
  EXPECT_EQ(options.nnodes, 2);
  EXPECT_FALSE(options.is_enough(1));
  set_nnodes("1:4", options);
  EXPECT_EQ(options.nnodes, 4);
  EXPECT_TRUE(options.is_enough(1));
  for (const char* text : {"", ":", "2:", "1:2:3", "two"})
    EXPECT_THROW(set_nnodes(text, options), ConfigError) << text;
  for (const char* text : {"0:4", "5:4"}) {
    set_nnodes(text, options);
    options.command = {"true"};
    options.rendezvous.host = "h";
    EXPECT_NE(message_of<ConfigError>([&] { check(options); }).find("--min-nodes"),
              std::string::npos);
  }
}

TEST(LaunchOptions, NumbersOfRanks) {
  EXPECT_EQ(parse_nproc("4"), 4);
  EXPECT_GE(parse_nproc("cpu"), 1);
  EXPECT_GE(parse_nproc("auto"), 1);
  EXPECT_THROW(parse_nproc("tpu"), ConfigError);
}

TEST(LaunchOptions, Seconds) {
  EXPECT_EQ(parse_seconds("--grace", "5"), milliseconds(5000));
  EXPECT_EQ(parse_seconds("--grace", "0.25"), milliseconds(250));
  for (const char* text : {"", "-1", "5s", "inf", "nan", "1e300"})
    EXPECT_THROW(parse_seconds("--grace", text), ConfigError) << text;
}

TEST(LaunchOptions, AreCheckedTogether) {
  const LaunchOptions good{.command = {"true"}};
  EXPECT_NO_THROW(check(good));
  const auto refused = [&](auto change) {
    LaunchOptions options = good;
    change(options);
    EXPECT_THROW(check(options), ConfigError);
  };
  refused([](LaunchOptions& options) { options.command.clear(); });
  refused([](LaunchOptions& options) { options.nproc = 0; });
  refused([](LaunchOptions& options) { options.nproc = 1'000'000; });
  refused([](LaunchOptions& options) { options.nnodes = 0; });
  refused([](LaunchOptions& options) { options.nnodes = 2; });
  refused([](LaunchOptions& options) { options.node_rank = 1; });
  refused([](LaunchOptions& options) { options.node_rank = -1; });
  refused([](LaunchOptions& options) { options.max_restarts = -1; });
  refused([](LaunchOptions& options) { options.master_port = 65536; });
  refused([](LaunchOptions& options) { options.id = ""; });
}

}  // namespace
}  // namespace tessera
