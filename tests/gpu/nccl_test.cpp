// The NCCL engine on a real GPU. NCCL refuses two ranks on one GPU, so the communicator has one
// member.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAFunctions.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "tessera/comm/collectives.h"
#include "tessera/comm/internal/operation.h"
#include "tessera/comm/nccl/factory.h"
#include "tessera/comm/world.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

c10::intrusive_ptr<c10d::Backend> communicator(comm::detail::CommunicatorRequest request) {
  if (!request.store) request.store = c10::make_intrusive<c10d::HashStore>();
  request.timeout = std::chrono::seconds(60);
  return comm::detail::nccl::make_engine({})->create(request);
}

c10::intrusive_ptr<c10d::Work> start_reduction(c10d::Backend& backend, at::Tensor& tensor) {
  std::vector<at::Tensor> tensors{tensor};
  return backend.allreduce(tensors);
}

// Into another tensor: a sum over one rank in place is what it was.
void expect_reduces(c10d::Backend& backend) {
  at::Tensor given = at::arange(1024, at::kCUDA);
  at::Tensor sum = at::zeros_like(given);
  backend._reduce_scatter_base(sum, given)->wait();
  EXPECT_TRUE(sum.equal(given));
}

TEST(Nccl, ACommunicatorReducesOnTheGpu) {
  const auto backend = communicator({.nccl = {.high_priority_stream = true, .max_ctas = 8}});
  expect_reduces(*backend);
}

// What a world with TESSERA_NCCL_SPLIT=1 does with its groups of several ranks.
TEST(Nccl, ACommunicatorIsSplitFromAnother) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto create = [&](const char* name, const c10::intrusive_ptr<c10d::Backend>& parent) {
    return communicator({.store = c10::make_intrusive<c10d::PrefixStore>(name, store),
                         .connected_device = at::Device(at::kCUDA, 0),
                         .parent = parent});
  };
  const auto all = create("all", {});
  const auto part = create("part", all);
  EXPECT_EQ(dynamic_cast<c10d::ProcessGroupNCCL&>(*all).getCommSplitCounter(), 1);
  expect_reduces(*part);
}

// Longer than a wait with a time limit takes to end in an error.
TEST(Nccl, TheHostDoesNotWaitForTheGpu) {
  const auto backend = communicator({});
  at::Tensor first = at::ones({1}, at::kCUDA);
  start_reduction(*backend, first)->wait();  // Connects, which takes longer than the products.
  at::Tensor tensor = at::eye(8192, at::kCUDA);
  for (int i = 0; i < 60; ++i) tensor = at::mm(tensor, tensor);  // Some 20 ms each.
  const auto work = start_reduction(*backend, tensor);
  const std::chrono::milliseconds limit(1);
  EXPECT_TRUE(comm::detail::wait_on_gpu(*work, limit, /*blocks_host=*/false));
  EXPECT_FALSE(work->isCompleted()) << "the GPU still computes";
  EXPECT_FALSE(comm::detail::wait_on_gpu(*work, limit, /*blocks_host=*/true));
  EXPECT_TRUE(comm::detail::wait_on_gpu(*work, std::chrono::seconds(60), /*blocks_host=*/true));
  EXPECT_TRUE(work->isCompleted());
  EXPECT_EQ(tensor.sum().item<float>(), 8192);
}

TEST(Nccl, IsTheDefaultWhereCudaIsPresent) {
  World world = World::connect(LaunchInfo{}, {});
  EXPECT_EQ(world.backend(), Backend::kNccl);
  EXPECT_EQ(world.device(), at::Device(at::kCUDA, 0));
  EXPECT_EQ(world.group().device(), world.device());
  EXPECT_EQ(all_reduce(at::ones({2}), world.group()).wait().sum().item<float>(), 2) << "of the CPU";
  EXPECT_EQ(all_reduce(at::ones({2}, at::kCUDA), world.group()).wait().sum().item<float>(), 2);
}

// NCCL refuses ranks that share a GPU, so that such worlds talk over Gloo.
TEST(Nccl, RanksThatShareAGpuUseGloo) {
  const int64_t gpus = c10::cuda::device_count();
  testkit::run_ranks(gpus + 1, [gpus](World&) {
    World world = World::connect({.timeout = std::chrono::seconds(60)});
    RANK_EXPECT(world.backend() == Backend::kGloo);
    const auto gpu = static_cast<c10::DeviceIndex>(world.rank().value % gpus);
    RANK_EXPECT(world.device() == at::Device(at::kCUDA, gpu));
    const at::Tensor ones = at::ones({2}, world.device());
    RANK_EXPECT(all_reduce(ones, world.group()).wait().sum().item<float>() ==
                2.0F * static_cast<float>(gpus + 1));
    world.close();
  });
}

}  // namespace
}  // namespace tessera
