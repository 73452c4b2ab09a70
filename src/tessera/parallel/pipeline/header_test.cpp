#include "tessera/parallel/pipeline/internal/header.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "tessera/base/error.h"

namespace tessera::pipeline::detail {
namespace {

TensorForm any_form() {
  const auto size = rc::gen::inRange<int64_t>(0, 1LL << 40);
  const auto dimensions = *rc::gen::inRange<size_t>(0, kMostDimensions + 1);
  return {.dtype = *rc::gen::element(at::kFloat, at::kBFloat16, at::kLong, at::kBool),
          .requires_grad = *rc::gen::arbitrary<bool>(),
          .sizes = *rc::gen::container<std::vector<int64_t>>(dimensions, size)};
}

RC_GTEST_PROP(Header, RoundTrips, ()) {
  Header header{.call = *rc::gen::arbitrary<int64_t>()};
  for (auto left = *rc::gen::inRange<size_t>(0, kMostTensors + 1); left > 0; --left) {
    header.forms.push_back(any_form());
  }
  if (*rc::gen::arbitrary<bool>()) {
    header.failure = StepFailure{
        .rank = GroupRank{*rc::gen::inRange<int64_t>(0, 16384)},
        .task = {
            .type = ActionType::kBackward, .stage = *rc::gen::inRange(0, 100), .microbatch = 7}};
  }
  const at::Tensor words = to_tensor(header);
  RC_ASSERT(words.sizes() == empty_header().sizes());
  const Header again = to_header(words);
  RC_ASSERT(again.call == header.call);
  RC_ASSERT(again.forms == header.forms);
  RC_ASSERT(again.failure.has_value() == header.failure.has_value());
  if (header.failure) {
    RC_ASSERT(again.failure->rank == header.failure->rank);
    RC_ASSERT(again.failure->task == header.failure->task);
  }
}

TEST(Header, RefusesMoreThanItHolds) {
  check_forms(TensorForms(kMostTensors));
  EXPECT_THROW(check_forms(TensorForms(kMostTensors + 1)), ConfigError);
  check_forms({{.sizes = std::vector<int64_t>(kMostDimensions, 1)}});
  EXPECT_THROW(check_forms({{.sizes = std::vector<int64_t>(kMostDimensions + 1, 1)}}), ConfigError);
}

TEST(TensorForms, GradientsComeBackForWhatRequiresThem) {
  const at::Tensor weight = at::zeros({2, 3}).set_requires_grad(true);
  const at::Tensor mask = at::zeros({2}, at::kLong);
  const TensorForms forms = forms_of({weight, mask}, true);
  EXPECT_EQ(gradient_forms(forms), (TensorForms{{.dtype = at::kFloat, .sizes = {2, 3}}}));
  EXPECT_TRUE(gradient_forms(forms_of({weight, mask}, false)).empty());
  EXPECT_EQ(to_string(forms), "Float [2, 3] with gradient, Long [2]");
}

}  // namespace
}  // namespace tessera::pipeline::detail
