#include "tessera/comm/internal/operation.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {

using namespace comm::detail;

namespace {

using std::chrono::milliseconds;

// Ends after it was asked a few times, as an operation on a GPU ends by itself.
class OnGpu : public c10d::Work {
 public:
  explicit OnGpu(int64_t asks) : asks_left_(asks) {}
  bool isCompleted() override { return asks_left_-- <= 0; }
  bool wait(milliseconds limit) override {
    limits.push_back(limit);
    return true;
  }
  std::vector<milliseconds> limits;  // Of each wait.

 private:
  int64_t asks_left_;
};

constexpr int64_t kNever = 1'000'000'000;

TEST(WaitOnGpu, TheHostDoesNotWait) {
  OnGpu handle(kNever);
  EXPECT_TRUE(wait_on_gpu(handle, milliseconds(1), /*blocks_host=*/false));
  EXPECT_EQ(handle.limits, std::vector{kNoTimeout});
}

TEST(WaitOnGpu, TheHostWaitsInStepsWithoutALimitForNccl) {
  OnGpu handle(5);
  EXPECT_TRUE(wait_on_gpu(handle, milliseconds(10'000), /*blocks_host=*/true));
  EXPECT_EQ(handle.limits, std::vector{kNoTimeout});

  OnGpu hanging(kNever);
  EXPECT_FALSE(wait_on_gpu(hanging, milliseconds(1), /*blocks_host=*/true));
  EXPECT_TRUE(hanging.limits.empty());
}

}  // namespace
}  // namespace tessera
