#include "tessera/parallel/pipeline/internal/batch_slices.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace tessera::pipeline::detail {
namespace {

RC_GTEST_PROP(BatchSlices, TogetherAreTheBatch, ()) {
  const int64_t microbatches = *rc::gen::inRange<int64_t>(1, 9);
  const int64_t rows = *rc::gen::inRange<int64_t>(microbatches, 40);
  const PipelineBatch batch{.inputs = {at::arange(2 * rows).reshape({rows, 2}), at::arange(rows)},
                            .target = at::arange(rows) + 100,
                            .keywords = {{"mask", at::arange(rows) * 3}, {"scale", 0.5}}};
  const BatchSlices slices(batch, rows, microbatches);
  std::vector<at::Tensor> first;
  std::vector<at::Tensor> second;
  std::vector<at::Tensor> masks;
  std::vector<at::Tensor> targets;
  double shares = 0;
  for (int32_t i = 0; i < microbatches; ++i) {
    first.push_back(slices.inputs(i)[0]);
    second.push_back(slices.inputs(i)[1]);
    masks.push_back(std::get<at::Tensor>(slices.keywords(i).at("mask")));
    targets.push_back(slices.target(i));
    RC_ASSERT(std::get<double>(slices.keywords(i).at("scale")) == 0.5);
    RC_ASSERT(slices.share(i) ==
              static_cast<double>(targets.back().size(0)) / static_cast<double>(rows));
    RC_ASSERT(first.back().is_alias_of(batch.inputs[0]));
    shares += slices.share(i);
  }
  RC_ASSERT(at::cat(first).equal(batch.inputs[0]));
  RC_ASSERT(at::cat(second).equal(batch.inputs[1]));
  RC_ASSERT(at::cat(masks).equal(std::get<at::Tensor>(batch.keywords.at("mask"))));
  RC_ASSERT(at::cat(targets).equal(batch.target));
  RC_ASSERT(std::abs(shares - 1) < 1e-12);
}

}  // namespace
}  // namespace tessera::pipeline::detail
