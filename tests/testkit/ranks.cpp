#include "tests/testkit/ranks.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdlib>

#include "tessera/comm/collectives.h"
#include "tests/testkit/device.h"
#include "tests/testkit/spawn.h"

namespace tessera::testkit {
namespace {

constexpr std::chrono::seconds kWorldTimeout{60};
constexpr const char* kMarker = "TESSERA_TEST_RANK";

int64_t num_checks = 0;

void run_as_rank(int64_t world_size, const std::function<void(World&)>& body) {
  // Ranks with tensors on GPUs use NCCL if there are enough.
  const Backend backend = device().is_cpu() ? Backend::kGloo : Backend::kAuto;
  World world = World::connect({.backend = backend, .timeout = kWorldTimeout});
  ASSERT_EQ(world.size(), world_size);
  body(world);
  EXPECT_GT(num_checks, 0) << "rank " << world.rank().value << " checked nothing";
  if (!testing::Test::HasFailure()) world.close();
}

}  // namespace

int64_t sum_of_ranks(const Group& group) {
  int64_t sum = 0;
  for (const GlobalRank rank : group.ranks()) sum += rank.value;
  return sum;
}

int64_t reduced_rank(const World& world, const Group& group) {
  return all_reduce(at::full({1}, world.rank().value, at::kLong), group).wait().item<int64_t>();
}

bool checked(bool condition) {
  ++num_checks;
  return condition;
}

int64_t rank_of_test() {
  const char* rank = std::getenv("RANK");
  return rank == nullptr ? 0 : std::atoll(rank);
}

void run_ranks(int64_t world_size, const std::function<void(World&)>& body) {
  if (std::getenv(kMarker) != nullptr) {
    run_as_rank(world_size, body);
    return;
  }
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string filter =
      std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
  const std::vector<RankEnd> ends = spawn_ranks(world_size, {filter}, {{kMarker, "1"}});
  const bool all_well = std::ranges::all_of(ends, &RankEnd::succeeded);
  for (size_t rank = 0; rank < ends.size() && !all_well; ++rank) {
    ADD_FAILURE() << "rank " << rank << " ended with status " << ends[rank].status << ":\n"
                  << ends[rank].output;
  }
}

}  // namespace tessera::testkit
