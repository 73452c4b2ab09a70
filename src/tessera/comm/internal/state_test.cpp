#include "tessera/comm/internal/state.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/comm/world.h"

namespace tessera {

using namespace comm::detail;

namespace {

struct Ends {
  int shutdowns = 0;
  int aborts = 0;
  int destructions = 0;
};

class Engineless : public c10d::Backend {
 public:
  Engineless(std::string name, Ends& ends) : Backend(0, 2), name_(std::move(name)), ends_(ends) {}
  ~Engineless() override { ++ends_.destructions; }
  const std::string getBackendName() const override { return name_; }
  void shutdown() override { ++ends_.shutdowns; }
  void abort() override { ++ends_.aborts; }

 private:
  std::string name_;
  Ends& ends_;
};

// A world with connected communicators of these engines.
struct Connected {
  explicit Connected(const std::vector<std::string>& engines) : ends(engines.size()) {
    for (size_t i = 0; i < engines.size(); ++i) {
      communicators.push_back(world.communicator(
          std::to_string(i), [] { return std::make_shared<Communicator>(2, nullptr, nullptr); }));
      communicators[i]->backend(
          [&] { return c10::make_intrusive<Engineless>(engines[i], ends[i]); });
    }
  }
  std::vector<Ends> ends;  // Before the world, which is destroyed first.
  WorldState world;
  std::vector<std::shared_ptr<Communicator>> communicators;
};

// Destroying a communicator of NCCL may wait for the kernels of another. Those of operations that
// will not end hold up the GPU until they are aborted.
TEST(WorldState, AbandonsAllCommunicatorsIfOperationsOfNcclMayNotEnd) {
  Connected made({"nccl", "gloo", "nccl"});
  EXPECT_TRUE(made.world.can_finish_nccl());
  made.communicators[0]->poison("a rank was lost");
  EXPECT_FALSE(made.world.can_finish_nccl());
  made.world.close();
  for (const Ends& ends : made.ends) {
    EXPECT_EQ(ends.shutdowns, 0);
    EXPECT_EQ(ends.destructions, 0);
  }
  EXPECT_EQ(made.ends[0].aborts, 1);
  EXPECT_EQ(made.ends[1].aborts, 0) << "Gloo's need no GPU";
  EXPECT_EQ(made.ends[2].aborts, 1);
}

TEST(WorldState, AbortsNothingThatHasNotFailed) {
  Connected made({"nccl"});
  made.world.close();
  EXPECT_EQ(made.ends[0].aborts + made.ends[0].shutdowns + made.ends[0].destructions, 0);
}

TEST(WorldState, ReleasesCommunicatorsOfNcclThatHaveEnded) {
  Connected made({"nccl", "gloo"});
  made.world.nccl_has_ended = true;
  made.world.close();
  for (const Ends& ends : made.ends) {
    EXPECT_EQ(ends.shutdowns, 1);
    EXPECT_EQ(ends.destructions, 1);
  }
}

TEST(WorldState, AbandonsOnlyWhatFailedWithoutNccl) {
  Connected made({"gloo", "gloo"});
  EXPECT_FALSE(made.world.can_finish_nccl());
  made.communicators[0]->poison("a rank was lost");
  made.world.close();
  EXPECT_EQ(made.ends[0].destructions, 0);
  EXPECT_EQ(made.ends[1].destructions, 1);
}

TEST(Groups, AnotherLaneKeepsTheOptionsOfTheGroup) {
  const World world = World::fake(GlobalRank{0}, 2);
  const GroupOptions options{.timeout = std::chrono::milliseconds(7), .nccl = {.max_ctas = 4}};
  const Group group = world.group({GlobalRank{0}, GlobalRank{1}}, options);
  const Group other = on_lane(group, Lane::kGather);
  EXPECT_EQ(other.lane(), Lane::kGather);
  EXPECT_EQ(other.timeout(), group.timeout());
  EXPECT_EQ(other.state().nccl(), options.nccl);
}

TEST(Groups, ShapesInAFakeWorldAreThoseOfThisRank) {
  const World world = World::fake(GlobalRank{1}, 3);
  const std::vector<at::Tensor> all = all_gather_uneven(at::ones({2, 5}), world.group()).wait();
  ASSERT_EQ(all.size(), 3U);
  for (const at::Tensor& one : all) EXPECT_EQ(one.sizes(), (at::IntArrayRef{2, 5}));
}

// What the GPU waits for may never end.
TEST(Groups, OfNcclAreUnusableAfterAWaitThatFailed) {
  for (const std::string engine : {"nccl", "gloo"}) {
    const auto world = std::make_shared<WorldState>();
    world->launch.world_size = 2;
    world->timeout = std::chrono::milliseconds(1);
    const GroupOptions options{.backend = Backend::kGloo};
    const Group group(std::make_shared<GroupState>(world, all_ranks_of(world->launch), options));
    const Group alone(std::make_shared<GroupState>(world, RankGroup{GlobalRank{0}}, options));
    Communicator& communicator = *group.state().communicator();
    Ends ends;
    communicator.backend([&] { return c10::make_intrusive<Engineless>(engine, ends); });
    EXPECT_THROW(wait_until(alone, "what never comes", [] { return false; }), CommError);
    EXPECT_EQ(communicator.is_usable(), engine == "gloo");
    EXPECT_FALSE(world->can_finish_nccl());
  }
}

// There is no rank that it could wait for in vain.
TEST(Groups, AWorldOfOneRankWaitsWithoutATimeout) {
  const World world = World::connect(LaunchInfo{}, {.timeout = std::chrono::milliseconds(1)});
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  EXPECT_NO_THROW(wait_until(world.group(), "the end of a long step",
                             [&] { return std::chrono::steady_clock::now() > end; }));
}

}  // namespace
}  // namespace tessera
