#include "tessera/train/batch_source.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(BatchTensors, HaveTheRows) {
  const BatchTensors tensors = to_tensors(
      {.rows = 2, .seq = 3, .inputs = {1, 2, 3, 4, 5, 6}, .targets = {2, 3, 4, 5, 6, 7}});
  EXPECT_EQ(tensors.inputs.sizes(), (at::IntArrayRef{2, 3}));
  EXPECT_EQ(tensors.inputs.scalar_type(), at::kLong);
  EXPECT_EQ(tensors.inputs[1][0].item<int64_t>(), 4);
  EXPECT_EQ(tensors.targets[1][2].item<int64_t>(), 7);
}

TEST(BatchTensors, NoRowsAreNoRows) {
  EXPECT_EQ(to_tensors({.rows = 0, .seq = 3}).inputs.sizes(), (at::IntArrayRef{0, 3}));
}

}  // namespace
}  // namespace tessera
