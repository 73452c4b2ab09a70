// The memory of a sharded Llama of 24 blocks on 4 ranks, by the allocator's counters.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>

#include "tessera/model/llama.h"
#include "tessera/optim/adamw.h"
#include "tessera/plan/train_plan.h"
#include "tessera/train/compose.h"
#include "tests/testkit/live_memory.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::LiveMemory;
using testkit::run_ranks;

constexpr int64_t kRanks = 4;

LlamaConfig config() {
  return {.vocab_size = 32,
          .hidden_size = 128,
          .intermediate_size = 512,
          .num_hidden_layers = 24,
          .num_attention_heads = 4,
          .num_key_value_heads = 4,
          .head_dim = 32};
}

Engine engine_of(const World& world, const ComposeOptions& options,
                 const ParallelDims& dims = {.dp_shard = kRanks}) {
  Model model = llama_model(config());
  model.fill = [](const Parameters& parameters) { fill_llama(parameters, config(), 1); };
  return compose(model, realize(train_plan(kRanks, dims), world), options);
}

// Bytes of a block; a gather of less than a mebibyte would be staged in memory of Gloo's own.
constexpr double kUnit = 4 * (4 * 128 * 128 + 3 * 128 * 512 + 2 * 128);

at::Tensor tokens() {
  return at::arange(8).view({1, 8});
}

// In units, beside the bytes that are there at `base`.
double peak_above(int64_t base, const std::function<void()>& run) {
  LiveMemory::watch().reset_peak();
  run();
  return static_cast<double>(LiveMemory::watch().peak() - base) / kUnit;
}

// Activations are small here: 8 tokens, recomputed block by block.
TEST(FsdpMemory, ShardsTwoUnitsAndActivations) {
  run_ranks(kRanks, [](World& world) {
    const LiveMemory& memory = LiveMemory::watch();
    const int64_t whole = 4 * Llama(config()).parameter_count();
    const int64_t before = memory.bytes();
    Engine engine = engine_of(world, {.batch = kRanks, .recompute = Recompute::kFull});
    const int64_t base = memory.bytes();
    RANK_EXPECT(base - before < whole / kRanks + 4096) << base - before << " of " << whole;

    const double forward = peak_above(base, [&] { engine.evaluate(tokens(), tokens()); });
    RANK_EXPECT(forward > 2 && forward < 2.2) << forward;
    // Beside the gathered units, the gradients of one unit are computed and those of another are
    // reduced. The gradients' shards stay.
    const double step = peak_above(base, [&] { engine.train_step(tokens(), tokens()); });
    const double gradients = static_cast<double>(memory.bytes() - base) / kUnit;
    RANK_EXPECT(gradients < 24.2 / kRanks) << gradients;
    RANK_EXPECT(step - gradients < 4.6) << step - gradients;
  });
}

TEST(FsdpMemory, RanksOfASequenceHoldShards) {
  run_ranks(kRanks, [](World& world) {
    const LiveMemory& memory = LiveMemory::watch();
    const int64_t whole = 4 * Llama(config()).parameter_count();
    const auto held = [&](const ParallelDims& dims) {
      const int64_t before = memory.bytes();
      const Engine engine = engine_of(world, {.batch = kRanks}, dims);
      return memory.bytes() - before;
    };
    RANK_EXPECT(held({.cp = kRanks}) >= whole);
    RANK_EXPECT(held({.cp = kRanks, .shard_cp = true}) < whole / kRanks + 4096);
    RANK_EXPECT(held({.dp_replicate = 2, .cp = 2, .shard_cp = true}) < whole / 2 + 4096);
  });
}

TEST(FsdpMemory, IsTheSameAfterEachStep) {
  run_ranks(kRanks, [](World& world) {
    const LiveMemory& memory = LiveMemory::watch();
    const int64_t steps = std::getenv("TESSERA_SOAK") == nullptr ? 20 : 1000;
    Engine engine = engine_of(world, {.batch = kRanks});
    AdamW optimizer(engine.parameters());
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (int64_t step = 0; step < steps; ++step) {
      optimizer.zero_grad();
      engine.train_step(tokens(), tokens());
      optimizer.step(1e-3);
      if (step < 2) continue;
      least = std::min(least, memory.bytes());
      most = std::max(most, memory.bytes());
    }
    // A message of the watchdog may be in flight.
    RANK_EXPECT(most - least < 4096) << least << " to " << most;
  });
}

}  // namespace
}  // namespace tessera
