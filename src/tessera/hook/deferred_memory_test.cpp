// A separate program: the counting allocator stays until the end of the process.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <fstream>

#include "tessera/hook/deferred.h"
#include "tests/testkit/live_memory.h"

namespace tessera {
namespace {

namespace nn = torch::nn;
using testkit::LiveMemory;

// The largest resident memory of this process so far.
int64_t peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == "VmHWM:" && status >> kibibytes) return kibibytes * 1024;
  }
  return -1;
}

nn::Sequential blocks(int64_t count, int64_t width) {
  nn::Sequential net(nn::Embedding(width, width));
  for (int64_t i = 0; i < count; ++i) {
    net->push_back(nn::Linear(width, width));
    net->push_back(nn::LayerNorm(nn::LayerNormOptions({width})));
  }
  return net;
}

TEST(DeferredMemory, TwentyGigabytesTakeAlmostNothing) {
  const int64_t before = LiveMemory::watch().bytes();
  const int64_t peak_before = peak_bytes();
  const nn::Sequential net = build_deferred([] { return blocks(18, 16384); });
  int64_t bytes = 0;
  for (const at::Tensor& parameter : net->parameters()) {
    bytes += parameter.numel() * static_cast<int64_t>(parameter.element_size());
  }
  EXPECT_GT(bytes, 20'000'000'000);
  EXPECT_LT(LiveMemory::watch().bytes() - before, 1'000'000);
  ASSERT_GT(peak_before, 0);
  EXPECT_LT(peak_bytes() - peak_before, 64'000'000);
}

// Parameters, and the temporaries of one operator.
TEST(DeferredMemory, MaterializingTakesTheParametersAndNothingElse) {
  const int64_t before = LiveMemory::watch().bytes();
  {
    nn::Sequential net = build_deferred([] { return blocks(4, 256); });
    materialize(*net, at::kCPU);
    int64_t bytes = 0;
    for (const at::Tensor& parameter : net->parameters()) {
      bytes += parameter.numel() * static_cast<int64_t>(parameter.element_size());
    }
    EXPECT_EQ(LiveMemory::watch().bytes() - before, bytes);
  }
  EXPECT_EQ(LiveMemory::watch().bytes(), before);
}

// What was recorded goes with the module, materialized or not.
TEST(DeferredMemory, RepeatedBuildsTakeNoMore) {
  const auto build = [](int count) {
    for (int i = 0; i < count; ++i) {
      nn::Sequential net = build_deferred([] { return blocks(1, 8); });
      if (i % 2 == 0) materialize(*net, at::kCPU);
    }
  };
  build(100);
  const int64_t before = peak_bytes();
  build(2000);
  EXPECT_LT(peak_bytes() - before, 4'000'000);
}

}  // namespace
}  // namespace tessera
