// The NCCL engine on a real GPU. NCCL refuses two ranks on one GPU, so the communicator has one
// member.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tessera/comm/collectives.h"
#include "tessera/comm/nccl/factory.h"
#include "tessera/comm/world.h"

namespace tessera {
namespace {

TEST(Nccl, ACommunicatorReducesOnTheGpu) {
  const auto engine = nccl::make_engine({});
  const auto backend = engine->create({.store = c10::make_intrusive<c10d::HashStore>(),
                                       .rank = 0,
                                       .size = 1,
                                       .timeout = std::chrono::seconds(60),
                                       .nccl = {.high_priority_stream = true, .max_ctas = 8}});
  at::Tensor tensor = at::ones({1024}, at::kCUDA);
  std::vector<at::Tensor> tensors{tensor};
  backend->allreduce(tensors)->wait();
  EXPECT_EQ(tensor.sum().item<float>(), 1024);
}

TEST(Nccl, IsTheDefaultWhereCudaIsPresent) {
  World world = World::connect(LaunchInfo{}, {});
  EXPECT_EQ(world.backend(), Backend::kNccl);
  EXPECT_EQ(all_reduce(at::ones({2}, at::kCUDA), world.group()).wait().sum().item<float>(), 2);
}

}  // namespace
}  // namespace tessera
