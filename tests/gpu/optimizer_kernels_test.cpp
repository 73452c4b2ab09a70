// Updates and the norm of gradients by kernels, beside those of a CPU.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/kernel/gpu_kernel.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tessera/optim/sgd.h"
#include "tests/gpu/device.h"
#include "tests/gpu/random_shape.h"
#include "tests/testkit/operators.h"

namespace tessera {
namespace {

using Sizes = std::vector<int64_t>;

Parameters random_parameters(at::Device device, at::ScalarType dtype, bool shifts,
                             const Sizes& sizes) {
  at::manual_seed(4);
  Parameters parameters;
  for (const int64_t size : sizes) {
    const at::Tensor values = at::randn({size}).to(dtype).to(device);
    parameters.emplace_back(std::to_string(parameters.size()),
                            (shifts ? shifted(values) : values).requires_grad_());
  }
  return parameters;
}

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Parameters&)>;

MakeOptimizer sgd(const SgdOptions& options) {
  return [options](const Parameters& p) { return std::make_unique<Sgd>(p, options); };
}

const std::vector<MakeOptimizer> kOptimizers{
    [](const Parameters& p) { return std::make_unique<AdamW>(p); }, sgd({}), sgd({.momentum = 0.9}),
    sgd({.weight_decay = 0.1}), sgd({.momentum = 0.8, .nesterov = true, .weight_decay = 0.2})};

at::Tensor factor_on_gpu(double factor) {
  return at::full({}, factor, at::device(kGpu).dtype(at::kDouble));
}

// The same for both, in this dtype or in those of the parameters. The second parameter has none in
// the first two steps.
void set_gradients(const Parameters& here, const Parameters& there,
                   std::optional<at::ScalarType> dtype, int step, bool shifts) {
  for (size_t i = 0; i < here.size(); ++i) {
    if (i == 1 && step < 2) continue;
    const at::Tensor gradient =
        at::randn(here[i].tensor.sizes()).to(dtype.value_or(here[i].tensor.scalar_type()));
    const at::Tensor moved = gradient.to(kGpu, /*non_blocking=*/false, /*copy=*/true);
    here[i].tensor.mutable_grad() = gradient;
    there[i].tensor.mutable_grad() = shifts ? shifted(moved) : moved;
  }
}

// float32 with other rounding of the same formula; short parameters are rounded once more.
void expect_same_update(const Optimizer& got, const Parameters& there, const Optimizer& wanted,
                        const Parameters& here, const std::string& what) {
  const std::vector<OptimizerState> on_gpu = got.state();
  const std::vector<OptimizerState> on_cpu = wanted.state();
  ASSERT_EQ(on_gpu.size(), on_cpu.size());
  for (size_t i = 0; i < on_gpu.size(); ++i) {
    EXPECT_TRUE(at::allclose(on_gpu[i].tensor.cpu(), on_cpu[i].tensor, 1e-5, 1e-6))
        << what << on_gpu[i].name << on_gpu[i].kind;
  }
  for (size_t i = 0; i < here.size(); ++i) {
    const at::Tensor weight = here[i].tensor.detach().to(at::kFloat);
    const double error = here[i].tensor.element_size() < 4 ? 1e-2 : 1e-5;
    EXPECT_TRUE(
        at::allclose(there[i].tensor.detach().cpu().to(at::kFloat), weight, error, error / 10))
        << what << i;
  }
}

void check_optimizer(const MakeOptimizer& make, const Parameters& here, const Parameters& there,
                     std::optional<at::ScalarType> of_gradients, bool shifts,
                     const std::string& what) {
  const auto on_gpu = make(there);
  std::unique_ptr<Optimizer> on_cpu;
  {
    const WithoutKernels plain;
    on_cpu = make(here);
  }
  for (int step = 0; step < 5; ++step) {
    set_gradients(here, there, of_gradients, step, shifts);
    // Non-finite factors change nothing.
    on_gpu->step(1e-2, factor_on_gpu(std::nan("")));
    on_gpu->step(1e-2, std::numeric_limits<double>::infinity());
    on_gpu->step(1e-2, factor_on_gpu(0.5));
    const WithoutKernels plain;
    on_cpu->step(1e-2, 0.5);
  }
  expect_same_update(*on_gpu, there, *on_cpu, here, what);
}

void check_optimizer(const MakeOptimizer& make, at::ScalarType dtype, bool shifts,
                     const Sizes& sizes) {
  const Parameters there = random_parameters(kGpu, dtype, shifts, sizes);
  ASSERT_TRUE(has_kernels(there[0].tensor));
  check_optimizer(make, random_parameters(at::kCPU, dtype, /*shifts=*/false, sizes), there,
                  std::nullopt, shifts, c10::str(dtype, shifts ? " shifted " : " "));
}

const Sizes kParameterSizes{1, 5, 64, 20000, 40001};
const Sizes kSizesWithEmpty{1, 7, 0, 64, 20002, 40001, 0};

TEST(Kernels, AdamWAndSgd) {
  for (const MakeOptimizer& make : kOptimizers) {
    for (const at::ScalarType dtype : kDtypes) {
      for (const bool shifts : {false, true}) check_optimizer(make, dtype, shifts, kSizesWithEmpty);
    }
  }
}

// LibTorch's operators make these.
TEST(Kernels, OptimizersTakeDtypesThatDiffer) {
  for (const MakeOptimizer& make : kOptimizers) {
    const auto check = [&](at::ScalarType first, at::ScalarType second,
                           std::optional<at::ScalarType> gradients) {
      const auto parameters = [&](at::Device device) {
        Parameters both = random_parameters(device, first, /*shifts=*/false, {7});
        const Parameters more = random_parameters(device, second, /*shifts=*/false, {9, 33});
        both.emplace_back("b", more[0].tensor);
        both.emplace_back("c", more[1].tensor);
        return both;
      };
      check_optimizer(make, parameters(at::kCPU), parameters(kGpu), gradients, /*shifts=*/false,
                      c10::str(first, " ", second, " "));
    };
    check(at::kDouble, at::kDouble, std::nullopt);
    check(at::kBFloat16, at::kFloat, std::nullopt);
    check(at::kBFloat16, at::kHalf, std::nullopt);
    check(at::kFloat, at::kFloat, at::kBFloat16);
    check(at::kHalf, at::kHalf, at::kFloat);
  }
}

std::vector<at::Tensor> values_of(const Optimizer& optimizer, const Parameters& parameters) {
  std::vector<at::Tensor> values;
  for (const OptimizerState& one : optimizer.state()) values.push_back(one.tensor.clone());
  for (const Parameter& one : parameters) {
    values.push_back(one.tensor.detach().clone());
    values.push_back(one.tensor.grad().clone());
  }
  return values;
}

// The device reads the factor, whatever it is.
TEST(Kernels, UpdatesDoNotWaitForTheirFactor) {
  for (const MakeOptimizer& make : kOptimizers) {
    for (const at::ScalarType dtype : kDtypes) {
      const Parameters parameters = random_parameters(kGpu, dtype, /*shifts=*/false, {5, 70});
      const auto optimizer = make(parameters);
      set_gradients(parameters, parameters, dtype, /*step=*/2, /*shifts=*/false);
      optimizer->step(1e-2, 0.5);
      const std::vector<at::Tensor> before = values_of(*optimizer, parameters);
      const double infinity = std::numeric_limits<double>::infinity();
      for (const double factor : {std::nan(""), infinity, -infinity}) {
        const at::Tensor there = factor_on_gpu(factor);
        const testkit::OperatorCalls calls;
        optimizer->step(1e-2, there);
        EXPECT_EQ(calls.count("aten::_local_scalar_dense"), 0U) << dtype;
      }
      const std::vector<at::Tensor> after = values_of(*optimizer, parameters);
      for (size_t i = 0; i < before.size(); ++i) {
        EXPECT_TRUE(after[i].equal(before[i])) << dtype << i;
      }
    }
  }
}

// Clipping before the step gives the same bits, and gradients may have any strides.
TEST(Kernels, FactorsRoundLikeClippedGradients) {
  for (const MakeOptimizer& make : kOptimizers) {
    const Parameters ours = random_parameters(kGpu, at::kFloat, /*shifts=*/false, {1000});
    const Parameters theirs = random_parameters(kGpu, at::kFloat, /*shifts=*/false, {1000});
    const auto optimizer = make(ours);
    const auto other = make(theirs);
    for (int step = 0; step < 3; ++step) {
      const at::Tensor gradient = at::randn({1000, 2}).to(kGpu).select(1, 0);
      ours[0].tensor.mutable_grad() = gradient;
      theirs[0].tensor.mutable_grad() = gradient * 0.3;
      optimizer->step(0.1, factor_on_gpu(0.3));
      other->step(0.1, factor_on_gpu(1));
    }
    EXPECT_TRUE(ours[0].tensor.equal(theirs[0].tensor));
  }
}

TEST(Kernels, ABackwardPassNoticesAnUpdateBeforeIt) {
  for (const MakeOptimizer& make : kOptimizers) {
    const Parameters one = random_parameters(kGpu, at::kFloat, /*shifts=*/false, {9});
    const auto optimizer = make(one);
    one[0].tensor.square().sum().backward();
    const at::Tensor late = one[0].tensor.square().sum();
    optimizer->step(0.1);
    EXPECT_THROW(late.backward(), c10::Error);
  }
}

void check_gradient_norm(at::ScalarType dtype, bool shifts, const Sizes& sizes) {
  at::manual_seed(5);
  Parameters here;
  Parameters there;
  for (const int64_t size : sizes) {
    const at::Tensor gradient = at::randn({size}).to(dtype);
    for (Parameters* parameters : {&here, &there}) {
      const bool on_gpu = parameters == &there;
      const at::Device device = on_gpu ? kGpu : at::kCPU;
      const at::Tensor moved = gradient.to(device, on_gpu ? dtype : at::kDouble);
      const at::Tensor weight = at::zeros_like(moved).requires_grad_();
      weight.mutable_grad() = shifts ? shifted(moved) : moved;
      parameters->emplace_back(std::to_string(parameters->size()), weight);
    }
  }
  // Squares are added in float32 within a thread, 64 of them.
  EXPECT_NEAR(grad_norm(there) / grad_norm(here), 1, 1e-6) << dtype;
}

TEST(Kernels, GradientNorm) {
  for (const at::ScalarType dtype : kDtypes) {
    for (const bool shifts : {false, true}) check_gradient_norm(dtype, shifts, kParameterSizes);
  }
}

void check_random_sizes(uint64_t seed) {
  RandomShape draw(seed);
  at::manual_seed(seed);
  const bool shifts = draw.flip();
  const Sizes sizes{draw.up_to(30'000), draw.up_to(40), draw.up_to(720)};
  check_gradient_norm(draw.one_of(kDtypes), shifts, sizes);
  const auto optimizer = static_cast<size_t>(draw.up_to(std::ssize(kOptimizers)) - 1);
  check_optimizer(kOptimizers[optimizer], draw.one_of(kDtypes), shifts, sizes);
}

TEST(Kernels, RandomSizesOfParameters) {
  for_random_shapes(check_random_sizes);
}

}  // namespace
}  // namespace tessera
