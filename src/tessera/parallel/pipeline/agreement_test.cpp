#include "tessera/parallel/pipeline/internal/agreement.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/comm/world.h"

namespace tessera::pipeline::detail {
namespace {

PipelineBatch batch_of(int64_t rows) {
  return {.inputs = {at::zeros({rows, 2})},
          .target = at::zeros({rows}),
          .keywords = {{"mask", at::zeros({rows})}}};
}

TEST(StepTerms, EachRankReportsTheInputsOfItsStages) {
  const StepTerms both = terms_of(batch_of(6), true, true);
  EXPECT_EQ(both.input_rows, 6);
  EXPECT_EQ(both.target_rows, 6);
  EXPECT_EQ(both.keyword_rows, 6);
  EXPECT_EQ(terms_of(batch_of(6), false, true).input_rows, -1);
  EXPECT_EQ(terms_of(batch_of(6), true, false).target_rows, -1);
  EXPECT_EQ(terms_of({}, false, false).keyword_rows, -1);
}

TEST(StepTerms, TheDigestDependsOnShapesAndDtypes) {
  const uint64_t shapes = terms_of(batch_of(6), true, false).shapes;
  EXPECT_EQ(terms_of(batch_of(6), true, false).shapes, shapes);
  EXPECT_NE(terms_of(batch_of(7), true, false).shapes, shapes);
  PipelineBatch other = batch_of(6);
  other.inputs[0] = other.inputs[0].to(at::kDouble);
  EXPECT_NE(terms_of(other, true, false).shapes, shapes);
  other = batch_of(6);
  other.inputs[0].set_requires_grad(true);
  EXPECT_NE(terms_of(other, true, false).shapes, shapes);
}

TEST(StepTerms, InputsThatCannotBeSplitAreRefused) {
  EXPECT_THROW(terms_of({}, true, false), ConfigError) << "no inputs on the first stage";
  PipelineBatch batch = batch_of(6);
  batch.inputs.push_back(at::zeros({5}));
  EXPECT_THROW(terms_of(batch, true, false), ConfigError) << "inputs of different rows";
  batch = batch_of(6);
  batch.target = at::zeros({});
  EXPECT_THROW(terms_of(batch, false, true), ConfigError) << "a target without rows";
  batch = batch_of(6);
  batch.keywords["mask"] = at::Tensor();
  EXPECT_THROW(terms_of(batch, false, false), ConfigError) << "no tensor";
}

// Alone; on several ranks: tests/ranks/pipeline_failures_test.cpp.
TEST(StepAgreement, RowsAreThoseOfTheBatch) {
  World world = World::fake(GlobalRank{0}, 1);
  const auto agree = [&](int64_t rows, int64_t microbatches) {
    return agree_on_step(world.group(), microbatches,
                         [&] { return terms_of(batch_of(rows), true, true); });
  };
  EXPECT_EQ(agree(8, 4).rows, 8);
  EXPECT_EQ(agree(8, 4).shapes, agree(8, 4).shapes);
  EXPECT_NE(agree(8, 4).shapes, agree(9, 4).shapes);
  EXPECT_THROW(agree(3, 4), ConfigError) << "a microbatch without a row";
  world.close();
}

}  // namespace
}  // namespace tessera::pipeline::detail
