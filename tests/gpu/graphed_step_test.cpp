// Steps that a GPU repeats from a recording, beside the same steps without.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/error.h"
#include "tessera/comm/world.h"
#include "tessera/kernel/gpu_graph.h"
#include "tessera/model/llama_units.h"
#include "tessera/optim/adamw.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/compose.h"
#include "tessera/train/graphed_step.h"
#include "tessera/train/trainer.h"
#include "tests/gpu/small_llama.h"
#include "tests/testkit/operators.h"

namespace tessera {
namespace {

constexpr int64_t kBatch = 4;
constexpr int64_t kSteps = 12;
constexpr int64_t kShorter = 7;  // From this step on, batches need another recording.

// Other tokens in each step.
class Batches final : public BatchSource {
 public:
  int64_t batch() const override { return kBatch; }
  BatchTensors rows(int64_t step, Span rows) const override {
    at::manual_seed(static_cast<uint64_t>(step));
    const int64_t length = step < kShorter ? 17 : 13;
    const at::Tensor tokens = at::randint(kSmallLlama.vocab_size, {rows.size(), length}, at::kLong);
    return {.inputs = tokens.slice(1, 0, length - 1), .targets = tokens.slice(1, 1, length)};
  }
};

struct Training {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
  std::vector<bool> called;  // Whether the host called at::mm in each step.
};

at::Tensor random_tokens(int64_t length) {
  return at::randint(kSmallLlama.vocab_size, {kBatch, length}, at::kLong);
}

// After every third step it evaluates rows of `validated` tokens; 0: none.
Training train_llama(bool graphs, int64_t microbatches, Fp8 fp8, int64_t validated = 0,
                     int64_t sync_every = 1) {
  const World world = World::connect(LaunchInfo{}, {});
  Model model = llama_model(kSmallLlama, {.dtype = at::kBFloat16, .device = at::kCUDA});
  model.fill = [](const Parameters& all) { fill_llama(all, kSmallLlama, /*seed=*/1); };
  model = with_fp8(std::move(model), fp8, {1, 3});
  Engine engine = compose(
      model, realize(train_plan(1, {}), world),
      {.batch = kBatch, .schedule = one_rank(microbatches), .device = at::kCUDA, .graphs = graphs});
  AdamW optimizer(engine.parameters());
  const testkit::OperatorCalls calls;
  Training made;
  int64_t seen = 0;
  train({.steps = kSteps,
         .learning_rate = {.peak = 1e-3, .steps = kSteps},
         .clip = 1,
         .validate_every = validated == 0 ? 0 : GraphedStep::kWarmUpSteps,
         .sync_every = sync_every},
        engine, Batches(), optimizer,
        {.after_step =
             [&](const StepMetrics& metrics) {
               made.losses.push_back(metrics.loss);
               const auto begin = calls.names().begin() + seen;
               made.called.push_back(std::find(begin, calls.names().end(), "aten::mm") !=
                                     calls.names().end());
               seen = std::ssize(calls.names());
             },
         .validate =
             [&] {
               const at::Tensor tokens = random_tokens(validated);
               return engine.evaluate(tokens, tokens).item<double>();
             }});
  for (const Parameter& parameter : engine.parameters()) {
    made.weights.push_back(parameter.tensor.detach().cpu());
  }
  return made;
}

// The same kernels in the same order give the same bits.
void expect_same_training(const Training& got, const Training& wanted) {
  EXPECT_EQ(got.losses, wanted.losses);
  ASSERT_EQ(got.weights.size(), wanted.weights.size());
  for (size_t i = 0; i < got.weights.size(); ++i) {
    EXPECT_TRUE(got.weights[i].equal(wanted.weights[i])) << i;
  }
}

TEST(GraphedStep, GivesTheBitsOfOrdinarySteps) {
  for (const int64_t microbatches : {1, 2}) {
    for (const Fp8 fp8 : {Fp8::kNone, Fp8::kRowwise}) {
      SCOPED_TRACE(testing::Message()
                   << microbatches << " micro-batches, float8 " << (fp8 != Fp8::kNone));
      expect_same_training(train_llama(true, microbatches, fp8),
                           train_llama(false, microbatches, fp8));
    }
  }
}

// Just before the recording and later; of the length of the first batches, and of one that is
// longer than all.
TEST(GraphedStep, GivesThemAfterEvaluations) {
  for (const int64_t validated : {16, 40}) {
    for (const Fp8 fp8 : {Fp8::kNone, Fp8::kRowwise}) {
      SCOPED_TRACE(testing::Message() << validated << " tokens, float8 " << (fp8 != Fp8::kNone));
      expect_same_training(train_llama(true, 1, fp8, validated),
                           train_llama(false, 1, fp8, validated));
    }
  }
}

// Each repetition writes its loss to the same place.
TEST(GraphedStep, GivesThemIfTheHostWaitsSeldom) {
  const Training wanted = train_llama(false, 1, Fp8::kNone);
  for (const int64_t sync_every : {2, 5, 12}) {
    SCOPED_TRACE(sync_every);
    expect_same_training(train_llama(true, 1, Fp8::kNone, 0, sync_every), wanted);
  }
}

TEST(GraphedStep, RecordsAFormOnceAndThenCallsNoOperator) {
  const Training graphed = train_llama(true, 1, Fp8::kNone);
  for (size_t step = 0; step < graphed.called.size(); ++step) {
    const int64_t of_form = static_cast<int64_t>(step < kShorter ? step : step - kShorter);
    // Those that warm up, and the one that is recorded.
    EXPECT_EQ(graphed.called[step], of_form <= GraphedStep::kWarmUpSteps) << step;
  }
}

// A host that decides by a value of the GPU cannot be repeated.
TEST(GpuGraph, RefusesWorkThatWaitsForTheGpu) {
  const at::Tensor x = at::ones({4}, at::kCUDA);
  const auto graph = make_gpu_graph(x.device());
  EXPECT_THROW(graph->record([&] { (void)x.sum().item<float>(); }), StateError);
  EXPECT_EQ(x.sum().item<float>(), 4) << "the GPU works on";
  EXPECT_THROW(graph->replay(), StateError) << "nothing was recorded";
  at::Tensor doubled;
  graph->record([&] { doubled = x * 2; });
  graph->replay();
  EXPECT_EQ(doubled.sum().item<float>(), 8);
}

int64_t reserved_bytes() {
  namespace memory = c10::cuda::CUDACachingAllocator;
  memory::emptyCache();
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return memory::getDeviceStats(0).reserved_bytes.at(kAll).current;
}

TEST(GpuGraph, ARecordingThatFailsLeavesNothingBehind) {
  const at::Tensor x = at::ones({1 << 24}, at::kCUDA);
  const auto graph = make_gpu_graph(x.device());
  const int64_t before = reserved_bytes();
  EXPECT_THROW(graph->record([&] {
    const at::Tensor doubled = x * 2;
    (void)doubled[0].item<float>();
  }),
               StateError);
  EXPECT_EQ(reserved_bytes(), before);
  EXPECT_NO_THROW((void)at::rand({4}, at::kCUDA)) << "random numbers are no longer recorded";
}

TEST(GpuGraph, RepeatsWorkWithNewInputs) {
  const at::Tensor x = at::ones({4}, at::kCUDA);
  const auto graph = make_gpu_graph(x.device());
  at::Tensor doubled;
  const auto work = [&] { doubled = x * 2; };
  graph->run(work);
  EXPECT_EQ(doubled.sum().item<float>(), 8);
  graph->record(work);
  for (int i = 1; i < 4; ++i) {
    x.fill_(i);
    graph->replay();
    EXPECT_EQ(doubled.sum().item<float>(), 8 * i);
  }
}

TEST(GpuGraph, NeedsAGpu) {
  EXPECT_THROW((void)make_gpu_graph(at::kCPU), ConfigError);
}

}  // namespace
}  // namespace tessera
