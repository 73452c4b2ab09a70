// Tensor parallelism with the kernels of a GPU, beside the same ranks without them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/layer/linear.h"
#include "tessera/model/llama_units.h"
#include "tessera/parallel/tensor/column_linear.h"
#include "tessera/parallel/tensor/vocabulary.h"
#include "tessera/plan/train_plan.h"
#include "tessera/tensor/place_together.h"
#include "tessera/train/compose.h"
#include "tests/gpu/device.h"
#include "tests/gpu/small_llama.h"
#include "tests/testkit/operators.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using Tensors = std::vector<at::Tensor>;
using testkit::run_ranks;

// float32 sums in another order.
bool is_near(const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor same = wanted.to(got.device(), got.scalar_type());
  return got.sizes() == same.sizes() &&
         (got - same).norm().item<double>() <= 1e-5 * same.norm().item<double>() + 1e-7;
}

struct Mode {
  bool sequence;
  bool async;
  bool deferred;
  bool bias;
};

std::vector<Mode> modes() {
  std::vector<Mode> all;
  for (const auto& [sequence, async] : {std::pair(false, false), {true, false}, {true, true}}) {
    for (const bool deferred : {false, true}) {
      for (const bool bias : {false, true}) all.push_back({sequence, async, deferred, bias});
    }
  }
  return all;
}

std::string text_of(const Mode& mode) {
  return concat("sequence ", mode.sequence, ", async ", mode.async, ", deferred ", mode.deferred,
                ", bias ", mode.bias);
}

// Three layers of one input, of which this rank has some outputs.
struct Layers {
  explicit Layers(bool bias) {
    for (const int64_t rows : {24, 8, 16}) {
      const std::string name = std::to_string(parameters.size());
      parameters.emplace_back(name, at::randn({rows, 32}, kGpu).requires_grad_());
      weights.push_back({parameters.back().tensor});
      if (!bias) continue;
      parameters.emplace_back(name + ".bias", at::randn({rows}, kGpu).requires_grad_());
      weights.back().bias = parameters.back().tensor;
    }
  }

  Parameters parameters = {};
  std::vector<LinearWeights> weights = {};
};

struct Made {
  Tensors results;
  Tensors gradients;  // Of the input and of the parameters.
};

// Two micro-batches.
Made results_of(Layers& layers, const Mode& mode, const World& world, bool adds) {
  const TensorParallel tensor{world.group(), mode.sequence, mode.async};
  const WeightGradients later;
  const Pass pass{
      .deferred = mode.deferred ? &later : nullptr, .adds_gradients = adds, .tensor = &tensor};
  const at::Tensor x = at::randn({2, 4, 32}, kGpu).requires_grad_();
  Made made;
  for (int i = 0; i < 2; ++i) {
    made.results = column_linear(x, layers.weights, pass);
    at::Tensor loss = at::zeros({}, kGpu);
    for (const at::Tensor& result : made.results) loss = loss + result.square().sum();
    loss.backward();
    later.run();
  }
  made.gradients.push_back(x.grad());
  for (const Parameter& parameter : layers.parameters) {
    made.gradients.push_back(parameter.tensor.grad());
  }
  return made;
}

void check_joined_layers(World& world, const Mode& mode, bool adds) {
  SCOPED_TRACE(text_of(mode));
  const auto seed = static_cast<uint64_t>(world.rank().value);
  at::manual_seed(seed);
  Layers separate(mode.bias);
  at::manual_seed(seed);
  Layers joined(mode.bias);
  place_together(joined.parameters);
  at::manual_seed(mode.sequence ? seed : 9);  // Without it, x is the same on all ranks.
  const Made wanted = results_of(separate, mode, world, adds);
  at::manual_seed(mode.sequence ? seed : 9);
  const Made got = results_of(joined, mode, world, adds);
  RANK_EXPECT(got.results[0].is_alias_of(got.results[2])) << "one product";
  RANK_EXPECT(!wanted.results[0].is_alias_of(wanted.results[2]));
  for (size_t i = 0; i < wanted.results.size(); ++i) {
    RANK_EXPECT(is_near(got.results[i], wanted.results[i])) << i;
  }
  for (size_t i = 0; i < wanted.gradients.size(); ++i) {
    RANK_EXPECT(is_near(got.gradients[i], wanted.gradients[i])) << i;
  }
}

TEST(TensorKernels, ColumnParallelLayersOfOneInputAreOneProduct) {
  run_ranks(2, [](World& world) {
    for (const Mode& mode : modes()) {
      for (const bool adds : {false, true}) check_joined_layers(world, mode, adds);
    }
  });
}

struct Loss {
  at::Tensor value;
  at::Tensor gradient;
};

constexpr int64_t kIgnored = 2;

// `held`: whether the logits are read after the backward pass.
Loss loss_of(const at::Tensor& whole, const at::Tensor& targets, const World& world,
             const VocabularyLossOptions& options, bool held) {
  const TensorParallel tensor{world.group(), false, false};
  const Pass pass{.tensor = &tensor};
  const VocabularyRows rows = vocabulary_rows(whole.size(2), pass);
  const at::Tensor leaf =
      whole.narrow(2, rows.rows.begin, rows.rows.size()).clone().requires_grad_();
  at::Tensor logits = leaf * 1;
  const at::Tensor before = held ? logits.detach() : at::Tensor();
  const at::Tensor copy = held ? before.clone() : at::Tensor();
  const void* const place = logits.const_data_ptr();
  bool is_in_place = false;
  logits.register_hook([&](const at::Tensor& g) { is_in_place = g.const_data_ptr() == place; });
  const at::Tensor loss = vocabulary_loss(logits, targets, rows, pass, options);
  logits.reset();
  loss.backward();
  const bool could_be =
      !held && whole.scalar_type() != at::kDouble;  // Of which there are no kernels.
  RANK_EXPECT(rows.rows.size() == 0 || is_in_place == could_be) << "where the gradient is";
  RANK_EXPECT(!held || before.equal(copy)) << "the gradient took the place of the logits";
  return {loss.detach(), leaf.grad()};
}

void check_loss(const World& world, int64_t vocab_size, at::ScalarType dtype,
                const VocabularyLossOptions& options) {
  at::manual_seed(11);
  const at::Tensor whole = (at::randn({2, 5, vocab_size}) * 3).to(kGpu, dtype);
  at::Tensor targets = at::randint(vocab_size, {2, 5}, at::kLong).to(kGpu);
  targets[0][1] = kIgnored;
  targets[1][4] = vocab_size - 1;
  for (const bool held : {false, true}) {
    const Loss got = loss_of(whole, targets, world, options, held);
    const WithoutKernels plain;
    const Loss wanted = loss_of(whole.cpu().to(at::kDouble), targets.cpu(), world, options, held);
    RANK_EXPECT(is_near(got.value, wanted.value)) << got.value.item() << wanted.value.item();
    const at::Tensor same = wanted.gradient;
    const at::Tensor error = (got.gradient.cpu().to(at::kDouble) - same).abs();
    // Each gradient is rounded once.
    const double rounding = dtype == at::kBFloat16 ? 1.0 / 256 : 1e-5;
    RANK_EXPECT(((error - same.abs() * rounding) <= 1e-7).all().item<bool>()) << dtype;
  }
}

TEST(TensorKernels, LossOfAVocabularyThatRanksShare) {
  run_ranks(3, [](World& world) {
    for (const int64_t vocab_size : {37, 4}) {  // Of 4, the last rank has none.
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
        check_loss(world, vocab_size, dtype, {});
        check_loss(world, vocab_size, dtype, {.ignore_index = kIgnored});
        check_loss(world, vocab_size, dtype, {.ignore_index = kIgnored, .count_ignored = true});
      }
    }
  });
}

// Logits are never converted, and no exponentials are kept.
TEST(TensorKernels, LossLeavesLogitsInTheirDtype) {
  run_ranks(2, [](World& world) {
    const TensorParallel tensor{world.group(), false, false};
    const Pass pass{.tensor = &tensor};
    const VocabularyRows rows = vocabulary_rows(40, pass);
    const at::Tensor logits =
        at::randn({2, 5, rows.rows.size()}, kGpu).to(at::kBFloat16).requires_grad_();
    const at::Tensor targets = at::randint(40, {2, 5}, at::kLong).to(kGpu);
    const testkit::OperatorCalls calls;
    vocabulary_loss(logits, targets, rows, pass).backward();
    RANK_EXPECT(calls.count("aten::exp_") == 0 && calls.count("aten::amax") == 0);
  });
}

struct TensorStep {
  at::Tensor loss;
  Tensors gradients;
};

TensorStep step_of(const World& world, at::Device device, bool sequence) {
  Model model = llama_model(kSmallLlama, {.dtype = at::kFloat, .device = device});
  model.fill = [](const Parameters& all) { fill_llama(all, kSmallLlama, /*seed=*/1); };
  const Plan plan = train_plan(world.size(), {.tp = world.size()});
  Engine engine =
      compose(model, realize(plan, world), {.batch = 2, .device = device, .sequence = sequence});
  at::manual_seed(7);
  const at::Tensor tokens = at::randint(kSmallLlama.vocab_size, {2, 17}, at::kLong);
  TensorStep step{.loss = engine.train_step(tokens.slice(1, 0, 16), tokens.slice(1, 1, 17)),
                  .gradients = {}};
  for (const Parameter& parameter : engine.parameters()) {
    step.gradients.push_back(parameter.tensor.grad());
  }
  return step;
}

TEST(TensorKernels, AModelHasTheGradientsOfLibTorch) {
  run_ranks(2, [](World& world) {
    for (const bool sequence : {false, true}) {
      const TensorStep got = step_of(world, kGpu, sequence);
      const WithoutKernels plain;
      const TensorStep wanted = step_of(world, at::kCPU, sequence);
      RANK_EXPECT(is_near(got.loss, wanted.loss));
      for (size_t i = 0; i < wanted.gradients.size(); ++i) {
        RANK_EXPECT(is_near(got.gradients[i], wanted.gradients[i])) << i;
      }
    }
  });
}

}  // namespace
}  // namespace tessera
