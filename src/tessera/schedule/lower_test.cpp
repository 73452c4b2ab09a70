#include "tessera/schedule/lower.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/schedule/generate.h"
#include "tests/testkit/schedules.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::table;

TEST(Lower, AddsWhatARankExecutes) {
  EXPECT_EQ(lower(table({"0F0 0F1 . 0B0 0B1", ". 1F0 1B0 1F1 1B1"})).to_string(),
            "0UNSHARD 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD 0RESHARD\n"
            "1UNSHARD 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD 1RESHARD\n");
}

TEST(Lower, MayAddMessagesAlone) {
  EXPECT_EQ(lower(table({"0F0 0B0", "1F0 1I0 1W0"}), {.messages_only = true}).to_string(),
            "0F0 0SEND_F0 0RECV_B0 0B0\n1RECV_F0 1F0 1I0 1SEND_B0 1W0\n");
}

// Four stages on one rank: gathers three ahead, and an overlap counts its two at once.
TEST(Lower, GathersThreeStagesAhead) {
  EXPECT_EQ(lower(table({"0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0"})).to_string(),
            "0UNSHARD 1UNSHARD 2UNSHARD 0F0 0RESHARD 3UNSHARD 1F0 2F0 3F0 3B0 3REDUCE_GRAD "
            "3RESHARD 0UNSHARD 2B0 2REDUCE_GRAD 2RESHARD 1B0 1REDUCE_GRAD 1RESHARD 0B0 "
            "0REDUCE_GRAD 0RESHARD\n");
}

TEST(Lower, DefersReceivesUntilTheyAreNeeded) {
  const Schedule deferred = lower(table({"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1"}),
                                  {.receives = Receives::kDeferred, .messages_only = true});
  EXPECT_EQ(deferred.to_string(),
            "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1\n"
            "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1\n");
  EXPECT_EQ(deferred.sends(), SendMode::kPosted);
}

TEST(Lower, FusesWhatWouldWaitForEachOther) {
  EXPECT_EQ(lower_in_step(generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 2}), true)
                .to_string(),
            "0F0 0SEND_F0 0F1 {0SEND_F1,0RECV_B0} 0B0 0RECV_B1 0B1 0REDUCE_GRAD\n"
            "1RECV_F0 1F0 1B0 {1SEND_B0,1RECV_F1} 1F1 1B1 1SEND_B1 1REDUCE_GRAD\n");
}

TEST(Lower, RefusesWhatIsLoweredAlready) {
  const Schedule lowered = lower(table({"0F0 0B0", "1F0 1B0"}));
  EXPECT_EQ(
      testkit::message_of<ConfigError>([&] { lower(lowered); }),
      "row 0, column 0: 0UNSHARD is not a compute action; only tables of F, B, I, W and overlaps "
      "can be lowered");
  EXPECT_THROW(merge_backward(lowered), ConfigError);
  EXPECT_THROW(with_reduce_grad(lowered), ConfigError);
}

TEST(Lower, RefusesWhatCannotBeScheduled) {
  EXPECT_NE(testkit::message_of<ConfigError>([] {
              lower(table({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}));
            }).find("rank 0 waits at 0B0"),
            std::string::npos);
}

TEST(MergeBackward, FoldsNeighboursAlone) {
  EXPECT_EQ(merge_backward(table({"0F0 0I0 . 0W0 0F1 0I1 0F2 0W1 0I2 0W2"})).to_string(),
            "0F0 0B0 0F1 0I1 0F2 0W1 0B2\n");
}

}  // namespace
}  // namespace tessera
