#include "tessera/parallel/pipeline/internal/placing.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/schedule/generate.h"
#include "tessera/schedule/lower.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/throws.h"

namespace tessera::pipeline::detail {
namespace {

using testkit::contains;
using testkit::message_of;

const Schedule k1F1B = generate({.pp = 4, .microbatches = 8});

TEST(CheckForNccl, LoweredSchedulesOfEachKindPass) {
  for (const std::string& name : schedule_kind_names()) {
    const ScheduleKind kind = parse_schedule_kind(name);
    if (!is_generated(kind)) continue;
    const Schedule schedule = generate({.kind = kind, .pp = 4, .microbatches = 16});
    EXPECT_NO_THROW(check_for_nccl(executable(schedule))) << name;
  }
}

std::string refusal(const Schedule& table) {
  return message_of<ConfigError>([&] { check_for_nccl(table); });
}

TEST(CheckForNccl, BatchesThatSendAndReceiveAreRefused) {
  EXPECT_EQ(refusal(lower_in_step(k1F1B, /*fused=*/true)),
            "schedule 1F1B cannot run over NCCL, where messages have no tags and those of a rank "
            "follow one another: it has batches of sends and receives; pass the compute-only "
            "schedule, which is lowered to such an order");
}

TEST(CheckForNccl, SendsThatMustNotWaitAreRefused) {
  const Schedule deferred = lower(k1F1B, {.receives = Receives::kDeferred});
  EXPECT_TRUE(contains(refusal(deferred), "the table would deadlock: rank 2 waits at 2SEND_F1"));
}

}  // namespace
}  // namespace tessera::pipeline::detail
