#include "tessera/parallel/pipeline/internal/buffer_pool.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera::pipeline::detail {
namespace {

const TensorForm kForm{.dtype = at::kFloat, .sizes = {2, 3}};

TEST(BufferPool, GivesTheFormThatWasAskedFor) {
  BufferPool pool(at::kCPU);
  const at::Tensor tensor = pool.take({.dtype = at::kLong, .sizes = {4}});
  EXPECT_EQ(tensor.scalar_type(), at::kLong);
  EXPECT_EQ(tensor.sizes(), at::IntArrayRef({4}));
}

TEST(BufferPool, ReusesMemoryWithoutOtherReferences) {
  BufferPool pool(at::kCPU);
  at::Tensor tensor = pool.take(kForm);
  const void* const memory = tensor.data_ptr();
  EXPECT_NE(pool.take(kForm).data_ptr(), memory) << "the first is still held";
  tensor = at::Tensor();
  EXPECT_EQ(pool.take(kForm).data_ptr(), memory);
  EXPECT_EQ(pool.size(), 2U);
}

TEST(BufferPool, DoesNotReuseMemoryThatAViewHolds) {
  BufferPool pool(at::kCPU);
  at::Tensor tensor = pool.take(kForm);
  const at::Tensor row = tensor[1];
  tensor = at::Tensor();
  EXPECT_FALSE(pool.take(kForm).is_alias_of(row));
}

TEST(BufferPool, OtherFormsHaveOtherMemory) {
  BufferPool pool(at::kCPU);
  (void)pool.take(kForm);
  (void)pool.take({.dtype = at::kFloat, .sizes = {3, 2}});
  (void)pool.take({.dtype = at::kDouble, .sizes = {2, 3}});
  EXPECT_EQ(pool.size(), 3U);
}

TEST(BufferPool, DropsWhatASecondStepDidNotUse) {
  BufferPool pool(at::kCPU);
  (void)pool.take(kForm);
  pool.drop_unused();
  EXPECT_EQ(pool.size(), 1U) << "it was used since the last call";
  pool.drop_unused();
  EXPECT_EQ(pool.size(), 0U);
}

}  // namespace
}  // namespace tessera::pipeline::detail
