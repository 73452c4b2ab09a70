#include "tessera/comm/internal/heartbeat.h"

#include <gtest/gtest.h>

namespace tessera {

using namespace comm::detail;

namespace {

RankReport inside(int64_t rank, const std::string& operation) {
  return {.rank = rank, .heartbeat = Heartbeat{.inside = true, .operation = operation}};
}

RankReport after(int64_t rank, const std::string& operation) {
  return {.rank = rank, .heartbeat = Heartbeat{.operation = operation}};
}

TEST(Heartbeat, SurvivesTheStore) {
  const Heartbeat heartbeat{.count = 3,
                            .pid = 17,
                            .host = "n\"1\n",
                            .inside = true,
                            .operation = "barrier #1 of group tp",
                            .end = "ended"};
  const Heartbeat read = parse_heartbeat(to_text(heartbeat));
  EXPECT_EQ(to_text(read), to_text(heartbeat));
  EXPECT_EQ(read.host, heartbeat.host);
  EXPECT_EQ(read.operation, heartbeat.operation);
}

TEST(Heartbeat, RanksAreGroupedByOperation) {
  EXPECT_EQ(
      summarize({inside(0, "all_reduce #17 of group dp"), inside(1, "all_reduce #17 of group dp"),
                 inside(2, "barrier #16 of group world"), inside(3, "all_reduce #17 of group dp")}),
      "ranks 0, 1, 3 are in all_reduce #17 of group dp; rank 2 is in barrier #16 of group "
      "world");
}

TEST(Heartbeat, ARankMayBeInNoOperation) {
  EXPECT_EQ(summarize({after(0, "barrier #1 of group world"), after(1, ""), after(2, "")}),
            "rank 0 is in no operation; the last was barrier #1 of group world; ranks 1, 2 are in "
            "no operation and had none before");
}

TEST(Heartbeat, MissingHeartbeatsAreReported) {
  RankReport silent = inside(1, "barrier #1 of group world");
  silent.silent_seconds = 4.56;
  RankReport early = after(2, "");
  early.silent_seconds = 2;
  EXPECT_EQ(summarize({inside(0, "barrier #1 of group world"), silent, early, {.rank = 3}}),
            "rank 0 is in barrier #1 of group world; rank 1 was last seen in barrier #1 of group "
            "world and has sent no heartbeat for 4.5 s; rank 2 was last seen before any operation "
            "and has sent no heartbeat for 2.0 s; rank 3 has sent no heartbeat yet");
}

}  // namespace
}  // namespace tessera
