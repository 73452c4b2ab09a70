#include "tessera/schedule/verify.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tests/testkit/schedules.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::table;

std::string refusal(const Schedule& schedule) {
  return testkit::message_of<ConfigError>([&] { verify(schedule); });
}

TEST(Verify, ReportsWhatItProved) {
  const Schedule compute = generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 3});
  EXPECT_EQ(verify(compute).to_string(),
            "complete, in order, no deadlock if a send waits for its receive (12 actions, 6 "
            "messages, implied)");
  EXPECT_EQ(verify(lower(compute)).to_string(),
            "complete, in order, no deadlock if a send waits for its receive (30 actions, 6 "
            "messages, written in the table)");
}

TEST(Verify, SaysThatDeferredReceivesNeedPostedSends) {
  const Schedule compute =
      generate({.kind = ScheduleKind::kInterleavedZeroBubble, .pp = 2, .microbatches = 4});
  const Schedule deferred = lower(compute, {.receives = Receives::kDeferred});
  const Verification report = verify(deferred);
  EXPECT_EQ(report.sends, SendMode::kPosted);
  EXPECT_FALSE(report.same_order);
  EXPECT_NE(report.to_string().find("if sends are posted"), std::string::npos);
  const Schedule waiting(deferred.name(), deferred.shape(),
                         {deferred.rows().begin(), deferred.rows().end()}, SendMode::kRendezvous);
  EXPECT_NE(refusal(waiting).find("would deadlock"), std::string::npos);
}

TEST(Verify, RefusesWhatStandsBeforeItsNeeds) {
  EXPECT_EQ(refusal(table({"0B0 0F0"})), "row 0, column 0: 0B0: its forward must come first");
  EXPECT_EQ(refusal(table({"0F0 0W0 0I0"})), "row 0, column 1: 0W0: its I must come first");
  EXPECT_EQ(refusal(table({"1F0 0F0 1B0 0B0"})),
            "row 0, column 0: 1F0: the forward of the previous stage, on the same rank, must come "
            "first");
  EXPECT_EQ(refusal(table({"0F0 1F0 0B0 1B0"})),
            "row 0, column 2: 0B0: the backward of the next stage, on the same rank, must come "
            "first");
}

TEST(Verify, RefusesWhatStandsTwice) {
  EXPECT_EQ(refusal(table({"0F0 0F0 0B0"})),
            "row 0, column 1: 0F0: it appears twice; each action must appear once");
  EXPECT_EQ(refusal(table({"0F0 0B0 0I0 0W0"})),
            "row 0, column 2: 0I0: a backward must be either one B, or an I and a W");
}

TEST(Verify, RefusesWhatIsMissing) {
  EXPECT_EQ(refusal(table({"0F0 0B0 0F1 0UNSHARD"})),
            "row 0, column 3: 0UNSHARD: its stage has already computed");
  EXPECT_EQ(
      refusal(table({"0F0 0I0 0F1 0B1"})),
      "row 0: 0W0 is missing; every stage needs each microbatch once as F and once as B, or as "
      "I and W");
  EXPECT_NE(refusal(table({"0F0 0I0 0W0 0F1"})).find("row 0: 0B1 is missing"), std::string::npos);
  EXPECT_NE(refusal(table({"0F0 0I0 0W0 0F2 0B2 0F3 0B3 0F4 0B4 0I1"})).find("column 9"),
            std::string::npos);
}

TEST(Verify, RefusesMessagesThatDoNotPairUp) {
  EXPECT_EQ(refusal(table({"0F0 0SEND_F0 0RECV_B0 0B0", "1F0 1RECV_F0 1B0 1SEND_B0"})),
            "row 1, column 0: 1F0: its RECV_F must come first");
  EXPECT_EQ(refusal(table({"0F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"})),
            "row 0: 0SEND_F0 is missing; stage 1 on rank 1 waits for it");
  EXPECT_EQ(refusal(table({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0"})),
            "row 1: 1SEND_B0 is missing; stage 0 on rank 0 waits for it");
  EXPECT_EQ(refusal(table({"0SEND_F0 0F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"})),
            "row 0, column 0: 0SEND_F0: its forward must come first");
  EXPECT_EQ(refusal(table({"0F0 0SEND_F0 0B0 0SEND_B0"})),
            "row 0, column 1: 0SEND_F0: there is no stage at the other end");
  EXPECT_EQ(refusal(table({"0F0 0SEND_F0 1F0 1B0 0B0"})),
            "row 0, column 1: 0SEND_F0: the stage at the other end lies on the same rank, so no "
            "message is needed");
}

TEST(Verify, RefusesGathersAndReductionsOutOfOrder) {
  EXPECT_EQ(refusal(table({"0UNSHARD 0F0 0RESHARD 0B0"})),
            "row 0, column 3: 0B0: its stage's UNSHARD must come first");
  EXPECT_EQ(refusal(table({"0RESHARD 0F0 0B0"})),
            "row 0, column 0: 0RESHARD: its stage is not gathered; an UNSHARD must come first");
  EXPECT_EQ(refusal(table({"0UNSHARD 0UNSHARD 0F0 0B0"})),
            "row 0, column 1: 0UNSHARD: its stage is already gathered");
  EXPECT_EQ(refusal(table({"0UNSHARD 0RESHARD 0F0 0B0"})),
            "row 0, column 1: 0RESHARD: nothing was computed since its UNSHARD");
  EXPECT_EQ(refusal(table({"0UNSHARD 0F0 0B0 0RESHARD 0UNSHARD"})),
            "row 0: 0UNSHARD: nothing is computed after it");
  EXPECT_EQ(refusal(table({"0F0 0REDUCE_GRAD 0B0"})),
            "row 0, column 1: 0REDUCE_GRAD: every B or W of its stage must come first");
  EXPECT_EQ(
      refusal(table({"0F0 0B0 0REDUCE_GRAD 0REDUCE_GRAD"})),
      "row 0, column 3: 0REDUCE_GRAD: it appears twice; a stage's gradients are reduced once");
  EXPECT_EQ(refusal(table({"0F0 1F0 1B0 0B0 0REDUCE_GRAD"})),
            "row 0: 1REDUCE_GRAD is missing; either all stages or none must have one");
}

TEST(Verify, PrintsTheCycleOfATableThatCannotBeScheduled) {
  EXPECT_EQ(
      refusal(table({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"})),
      "the table would deadlock: rank 0 waits at 0B0 (column 1) for 1B0 of rank 1 (column 2); "
      "rank 1 waits at 1F1 (column 1) for 0F1 of rank 0 (column 2); reorder one of these rows");
}

// 1F1B without fused batches, if a send waits for its receive.
TEST(Verify, PrintsTheCycleOfMessages) {
  const Schedule compute = generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 2});
  EXPECT_EQ(refusal(lower_in_step(compute, false)),
            "the table would deadlock: rank 0 waits at 0SEND_F1 (column 3) for 1RECV_F1 of rank 1 "
            "(column 4); rank 1 waits at 1SEND_B0 (column 3) for 0RECV_B0 of rank 0 (column 4); "
            "reorder one of these rows");
  EXPECT_NO_THROW(verify(lower_in_step(compute, true)));
}

// The second rank receives in another order than the first one sends.
TEST(Verify, SeesMessagesInAnotherOrder) {
  const std::vector<std::string_view> rows{"0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
                                           "1RECV_F1 1RECV_F0 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1"};
  EXPECT_NE(refusal(table(rows)).find("rank 0 waits at 0SEND_F0 (column 1) for 1RECV_F0"),
            std::string::npos);
  EXPECT_FALSE(verify(table(rows, SendMode::kPosted)).same_order);
}

TEST(Verify, AnOverlapWaitsForBothParts) {
  EXPECT_NO_THROW(verify(table({"0F0 1F0 (0F1;1B0)OVERLAP_F_B 1F1 1B1 0B0 0B1"})));
  EXPECT_EQ(refusal(table({"0F0 (0F1;1B0)OVERLAP_F_B 1F0 1F1 1B1 0B0 0B1"})),
            "row 0, column 1: 1B0: its forward must come first");
}

}  // namespace
}  // namespace tessera
