// The emulator finds what it is there for.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/kernel/gpu_kernel.h"

namespace tessera {
namespace {

at::Tensor run(const std::string& body, int64_t blocks = 1, int64_t threads = 64,
               int64_t width = 1) {
  const std::string source =
      "extern \"C\" __global__ void kernel(T* x) { const int me = threadIdx.x; " + body + " }";
  const at::Tensor x = at::zeros({threads});
  // Compiled kernels are known by the address of their text, which is not for good here.
  const GpuKernel kernel("kernel", source.c_str());
  kernel.launch(
      at::kCPU,
      {.width = width, .constants = "-DTEST=" + std::to_string(std::hash<std::string>()(source))},
      {.blocks = blocks, .threads = threads}, x.mutable_data_ptr());
  return x;
}

TEST(Emulator, BarriersOrderThreads) {
  const char* const shift = R"cuda(
    __shared__ float all[64];
    all[me] = me;
    __syncthreads();
    x[me] = all[(me + 1) % 64];)cuda";
  EXPECT_TRUE(run(shift).equal((at::arange(64) + 1).remainder(64).to(at::kFloat)));
  EXPECT_TRUE(run(shift, 2).equal(run(shift)));
}

TEST(Emulator, AMissingBarrierGivesAnotherResult) {
  const char* const wrong = R"cuda(
    __shared__ float all[64];
    all[me] = me + 64 * blockIdx.x;
    x[me] = all[63 - me];)cuda";
  EXPECT_FALSE(run(wrong).equal(at::arange(63, -1, -1).to(at::kFloat)));
}

// Blocks run in different orders, and so do the runs of one block.
TEST(Emulator, AMissingBarrierBetweenWarpsGivesDifferentResults) {
  const char* const wrong = R"cuda(
    __shared__ float all;
    if (me == 0) all = 1 + blockIdx.x;
    if (me >= 32) x[me] = all;)cuda";
  EXPECT_FALSE(run(wrong, 2).equal(run(wrong, 2)));
}

TEST(Emulator, ShufflesAreOfAWarp) {
  const at::Tensor got = run(
      "x[me] = __shfl_xor_sync(~0u, float(me), 1) + 1000 * __shfl_down_sync(~0u, float(me), 16);");
  EXPECT_EQ(got[0].item<float>(), 1 + 1000 * 16);
  EXPECT_EQ(got[33].item<float>(), 32 + 1000 * 49);
  EXPECT_EQ(got[63].item<float>(), 62 + 1000 * 63);
}

TEST(Emulator, ABarrierThatSomeThreadsMissIsReported) {
  EXPECT_THROW(run("if (me < 3) __syncthreads(); else x[me] = __shfl_xor_sync(~0u, 1.0f, 1);"),
               Error);
}

TEST(Emulator, AShuffleWithAThreadThatHasEndedIsReported) {
  EXPECT_THROW(run("if (me == 5) return; x[me] = __shfl_xor_sync(~0u, 1.0f, 1);"), Error);
}

// A tensor of whole pages has guards on both sides.
TEST(EmulatorDeathTest, LoadsAndStoresOutsideOfATensorEndTheProgram) {
  const int64_t page = sysconf(_SC_PAGESIZE) / static_cast<int64_t>(sizeof(float));
  for (const char* const outside : {"x[me - 1]", "x[me + 1]"}) {
    EXPECT_DEATH(run(concat(outside, " = 1;"), 1, page), "") << outside;
    EXPECT_DEATH(run(concat(outside, " += 1;"), 1, page), "") << outside;
    EXPECT_DEATH(run(concat("if (", outside, " == 1) x[0] = 1;"), 1, page), "") << outside;
  }
}

// Others have one on either side, and a store on the other side is reported.
TEST(EmulatorDeathTest, StoresBesideASmallTensorEndTheProgram) {
  for (int i = 0; i < 4; ++i) {
    const at::Tensor other = at::empty({1});  // So that `x` may have its guard on the other side.
    EXPECT_DEATH(run("x[me - 1] = 1;", 1, 63), "^$|in front of a tensor of 252 bytes");
    EXPECT_DEATH(run("x[me + 1] = 1;", 1, 63), "^$|behind a tensor of 252 bytes");
  }
}

TEST(EmulatorDeathTest, AnAddressThatIsNotAlignedEndsTheProgram) {
  EXPECT_DEATH(run("if (me == 0) store(x + 1, load(x));", 1, 64, 4), "");
}

}  // namespace
}  // namespace tessera
