// Weights of a user's own module, which fully_shard() watches and parallelize_module() replaces.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/hook/operator_override.h"
#include "tessera/hook/storage_reads.h"
#include "tessera/layer/norm.h"
#include "tests/gpu/device.h"

namespace tessera {
namespace {

struct Norm {
  at::Tensor x = at::randn({3, 64}, kGpu).requires_grad_();
  at::Tensor weight = at::ones({64}, kGpu).requires_grad_();
};

TEST(ObservedWeights, OfNormsAreSeenByThoseWhoWatchThem) {
  const Norm norm;
  int64_t reads = 0;
  const StorageReads watch({norm.weight}, [&](const std::vector<size_t>&) { ++reads; });
  const at::Tensor y = rms_norm(norm.x, norm.weight, 1e-5);
  EXPECT_GT(reads, 0) << "forward";
  reads = 0;
  y.sum().backward();
  EXPECT_GT(reads, 0) << "backward";
}

TEST(ObservedWeights, OfNormsCanBeReplaced) {
  const Norm norm;
  int64_t operators = 0;
  const OperatorOverride replace({norm.weight}, [&](const auto&, const auto&) {
    ++operators;
    return false;
  });
  (void)normed_sum(norm.x, norm.x, norm.weight, 1e-5);
  EXPECT_GT(operators, 0);
}

}  // namespace
}  // namespace tessera
