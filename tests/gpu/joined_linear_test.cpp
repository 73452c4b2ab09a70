// One product for several layers on a GPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/layer/linear.h"
#include "tessera/tensor/place_together.h"

namespace tessera {
namespace {

using Tensors = std::vector<at::Tensor>;

TEST(JoinedLinear, IsOneProductOfWeightsThatLieBehindEachOther) {
  for (const bool deferred : {false, true}) {
    at::manual_seed(3);
    Tensors separate;
    Parameters together;
    for (const int64_t rows : {24, 8, 8}) {
      const at::Tensor values = at::randn({rows, 32}, at::kCUDA);
      separate.push_back(values.clone().requires_grad_());
      together.emplace_back(std::to_string(together.size()), values.clone().requires_grad_());
    }
    place_together(together);
    const at::Tensor x = at::randn({2, 5, 32}, at::kCUDA).requires_grad_();
    const at::Tensor same = x.detach().clone().requires_grad_();
    const WeightGradients later;
    const Pass pass{.deferred = deferred ? &later : nullptr};
    std::vector<LinearWeights> layers;
    for (const Parameter& parameter : together) layers.push_back({parameter.tensor});
    const Tensors made = linear(x, layers, pass);
    EXPECT_TRUE(made[0].is_alias_of(made[2])) << "one product";
    at::Tensor loss = at::zeros({}, at::kCUDA);
    at::Tensor other = at::zeros({}, at::kCUDA);
    for (size_t i = 0; i < made.size(); ++i) {
      const at::Tensor wanted = at::linear(same, separate[i]);
      EXPECT_TRUE(at::allclose(made[i], wanted, 1e-4, 1e-4));
      loss = loss + made[i].square().sum();
      other = other + wanted.square().sum();
    }
    loss.backward();
    later.run();
    other.backward();
    EXPECT_TRUE(at::allclose(x.grad(), same.grad(), 1e-4, 1e-3));
    for (size_t i = 0; i < separate.size(); ++i) {
      EXPECT_TRUE(at::allclose(together[i].tensor.grad(), separate[i].grad(), 1e-4, 1e-3));
    }
  }
}

}  // namespace
}  // namespace tessera
