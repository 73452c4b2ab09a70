// Training without kernels, each time in a process of its own, since a process decides once.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama.h"
#include "tessera/optim/adamw.h"
#include "tests/gpu/device.h"
#include "tests/gpu/small_llama.h"

namespace tessera {
namespace {

// The weights after two steps.
std::vector<at::Tensor> trained() {
  Llama model(kSmallLlama);
  model.initialize(/*seed=*/1);
  model.to(at::kBFloat16);
  at::manual_seed(7);
  const at::Tensor tokens = at::randint(kSmallLlama.vocab_size, {2, 16}, at::kLong);
  const Parameters parameters = model.named_parameters();
  AdamW optimizer(parameters);
  for (int step = 0; step < 2; ++step) {
    token_loss_sum(model.forward(tokens), tokens, kIgnoredTarget).backward();
    optimizer.step(1e-3, 1.0 / 32);
  }
  std::vector<at::Tensor> weights;
  for (const Parameter& parameter : parameters) weights.push_back(parameter.tensor);
  return weights;
}

// Exit code 0 if there are no kernels, and training gives the same bits as LibTorch's operators.
[[noreturn]] void train_and_exit(const char* variable, const char* value) {
  setenv(variable, value, /*overwrite=*/1);
  const std::vector<at::Tensor> got = trained();
  const bool uses_kernels = has_kernels(got[0]);
  const WithoutKernels plain;
  const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.equal(b); };
  std::exit(!uses_kernels && std::ranges::equal(got, trained(), same) ? 0 : 1);
}

class FallbackDeathTest : public testing::Test {
 protected:
  FallbackDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// One line, although many kernels are wanted.
constexpr const char* kWarning =
    "^tessera: no kernels of its own for cpu \\([^\n]+\\); using LibTorch's, which are slower\n$";

TEST_F(FallbackDeathTest, ACompilerThatIsNotThereIsSaidOnce) {
  EXPECT_EXIT(train_and_exit("TESSERA_NVRTC", "/no/such/library"), testing::ExitedWithCode(0),
              kWarning);
}

// A compiler says more than one line.
TEST_F(FallbackDeathTest, AKernelThatDoesNotCompileIsSaidOnce) {
  EXPECT_EXIT(train_and_exit("GCC_EXEC_PREFIX", "/no/such/folder/"), testing::ExitedWithCode(0),
              kWarning);
}

// Like those of CUDA, this error is not one of Tessera's.
TEST_F(FallbackDeathTest, AnErrorOfAnotherLibraryIsSaidOnce) {
  EXPECT_EXIT(train_and_exit("TMPDIR", "/no/such/folder"), testing::ExitedWithCode(0), kWarning);
}

TEST_F(FallbackDeathTest, KernelsThatAreTurnedOffAreNoReasonToWarn) {
  EXPECT_EXIT(train_and_exit("TESSERA_KERNELS", "0"), testing::ExitedWithCode(0), "^$");
}

TEST_F(FallbackDeathTest, AWrongValueIsRefused) {
  const auto body = [] {
    try {
      train_and_exit("TESSERA_KERNELS", "off");
    } catch (const ConfigError& error) {
      std::cerr << error.what();
      std::exit(2);
    }
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(2),
              "^TESSERA_KERNELS='off' must be 0 or 1; set it to 0 to use LibTorch's operators "
              "alone, or leave it out$");
}

}  // namespace
}  // namespace tessera
