// Models with experts on ranks that divide them, compared with one process: losses, balancing
// losses, norms, and all parameters after some steps.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/model/llama.h"
#include "tessera/model/weights.h"
#include "tests/ranks/engine_case.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::run_ranks;

/// How tokens choose experts.
enum class Load { kMixed, kSameExperts, kOneIdle };

struct ExpertCase {
  ParallelDims dims = {};
  int64_t microbatches = 1;
  int64_t batch = 8;
  bool sequence = true;
  Load load = Load::kMixed;
  Recompute recompute = Recompute::kNone;
  ScheduleKind kind = ScheduleKind::k1F1B;
  bool mixtral = true;
  int64_t steps = 3;
  FsdpOptions fsdp = {};
  Dispatch dispatch = Dispatch::kAllToAll;
};

std::string text_of(const ExpertCase& c) {
  return concat(c.dims, ", ", c.microbatches, " microbatches of ", c.batch, " rows, load ",
                static_cast<int>(c.load), c.sequence ? "" : ", no sp", ", recompute ",
                static_cast<int>(c.recompute), c.mixtral ? "" : ", qwen3_moe",
                c.dispatch == Dispatch::kAllGather ? ", all-gather" : "");
}

// With --mlp-only layers and norms of heads in the one, a window in the other.
LlamaConfig config_of(const ExpertCase& c) {
  LlamaConfig config{.vocab_size = 17,
                     .hidden_size = 8,
                     .intermediate_size = 12,
                     .num_hidden_layers = 4,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2,
                     .head_dim = 4,
                     .initializer_range = 0.3,
                     .model_type = c.mixtral ? "mixtral" : "qwen3_moe",
                     .num_experts = 4,
                     .num_experts_per_tok = 2,
                     .router_aux_loss_coef = 0.1};
  if (c.mixtral) {
    config.sliding_window = 4;
  } else {
    config.qk_norm = true;
    config.moe_intermediate_size = 6;
    config.norm_topk_prob = false;
    config.mlp_only_layers = {1};
  }
  return config;
}

// Equal logits go to the lowest experts: 0 and 1, while 2 and 3 are idle. Or only 3 is idle: 0 and
// 1 read an element with both signs, so that one of them is above the zeros of 2 and 3.
void bend_router(const Parameter& parameter, Load load) {
  if (load == Load::kMixed || !parameter.name.ends_with("gate.weight")) return;
  const at::NoGradGuard no_grad;
  const at::Tensor whole = at::zeros(parameter.place.part.shape(), parameter.tensor.options());
  if (load == Load::kOneIdle) {
    whole[0][0] = 5;
    whole[1][0] = -5;
  }
  const at::Tensor part = elements_of(whole, parameter.place.part);
  replace_data(parameter.tensor, part.view(parameter.tensor.sizes()));
}

void fill(const Parameters& parameters, const ExpertCase& c) {
  fill_llama(parameters, config_of(c), kSeed);
  for (const Parameter& parameter : parameters) bend_router(parameter, c.load);
}

at::Tensor tokens(const ExpertCase& c, int64_t step) {
  return at::arange(step, step + c.batch * 8, testkit::here())
      .mul(7)
      .remainder(17)
      .view({c.batch, 8});
}

struct Outcome {
  std::vector<double> losses = {};  // And norms and balancing losses.
  at::Tensor counts = {};
};

Outcome train(const ExpertCase& c, Engine& engine) {
  Outcome outcome;
  AdamW optimizer(engine.parameters(), {.weight_decay = 0.1});
  const Span rows = engine.rows();
  const auto mine = [&](int64_t step) { return tokens(c, step).slice(0, rows.begin, rows.end); };
  for (int64_t step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    outcome.losses.push_back(engine.train_step(mine(step), mine(step + 1)).item<double>());
    outcome.losses.push_back(engine.grad_norm().item<double>());
    outcome.losses.push_back(engine.balance()->loss);
    outcome.counts = engine.balance()->counts.clone();
    optimizer.step(1e-2);
  }
  return outcome;
}

// Without an engine: one forward pass of the whole batch.
Outcome train_alone(const ExpertCase& c, const Llama& model) {
  Outcome outcome;
  const Parameters parameters = model.named_parameters();
  fill(parameters, c);
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  RouterBalance balance(*llama_model(config_of(c)).balance);
  for (int64_t step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    balance.begin(1, testkit::device());
    const at::Tensor loss =
        token_loss(model.forward(tokens(c, step), {.balance = &balance}), tokens(c, step + 1));
    balance.close();
    loss.backward();
    const BalanceResult result = balance.end();
    outcome.losses.insert(outcome.losses.end(),
                          {loss.item<double>(), clip_grad_norm_(parameters, 1e9), result.loss});
    outcome.counts = result.counts;
    optimizer.step(1e-2);
  }
  return outcome;
}

void check_experts(World& world, const ExpertCase& c) {
  const LlamaConfig config = config_of(c);
  const LlamaOptions options{.dtype = at::kDouble, .device = testkit::device()};
  Model model = llama_model(config, options);
  model.fill = [c](const Parameters& parameters) { fill(parameters, c); };
  Engine engine =
      compose(model, realize(train_plan(world.size(), c.dims), world),
              {.batch = c.batch,
               .schedule = make_schedule(
                   {.kind = c.kind, .pp = c.dims.pp, .microbatches = c.microbatches}, {}),
               .device = testkit::device(),
               .sequence = c.sequence,
               .dispatch = c.dispatch,
               .recompute = c.recompute,
               .fsdp = c.fsdp});
  const Outcome trained = train(c, engine);
  const Llama whole(config, options);
  const Outcome alone = train_alone(c, whole);
  RANK_EXPECT(are_close(trained.losses, alone.losses, 1e-10)) << text_of(c);
  RANK_EXPECT(trained.counts.equal(alone.counts)) << text_of(c);
  expect_same_parameters({}, engine.parameters(), whole, 1e-10);
}

std::vector<ExpertCase> loads_of(ExpertCase c) {
  std::vector<ExpertCase> cases;
  for (const Load load : {Load::kMixed, Load::kSameExperts, Load::kOneIdle}) {
    c.load = load;
    // Later, two idle experts with equal gradients would be tied up to rounding.
    c.steps = load == Load::kSameExperts ? 1 : 3;
    cases.push_back(c);
  }
  c.load = Load::kMixed;
  c.mixtral = false;
  cases.push_back(c);
  if (c.dims.ep * c.dims.etp > 1) {
    c.dispatch = Dispatch::kAllGather;
    cases.push_back(c);
  }
  return cases;
}

TEST(ExpertEngine, OneRankCountsBeforeItsSlices) {
  run_ranks(1, [](World& world) {
    check_experts(world, {});
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      check_experts(world, {.microbatches = 3, .recompute = recompute, .mixtral = false});
    }
  });
}

TEST(ExpertEngine, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    const std::vector<ParallelDims> layouts{{.dp_replicate = 2, .ep = 2},
                                            {.dp_replicate = 2, .etp = 2},
                                            {.dp_shard = 2, .ep = 2},
                                            {.dp_replicate = 2},
                                            {.dp_shard = 2},
                                            {.tp = 2},
                                            {.tp = 2, .ep = 2},
                                            {.tp = 2, .etp = 2},
                                            {.pp = 2}};
    for (const ParallelDims& dims : layouts) {
      for (const ExpertCase& c : loads_of({.dims = dims, .microbatches = dims.pp})) {
        check_experts(world, c);
      }
    }
    check_experts(world, {.dims = {.dp_replicate = 2, .ep = 2}, .batch = 7});
    check_experts(world, {.dims = {.dp_shard = 2, .ep = 2}, .batch = 7});
    for (const Load load : {Load::kSameExperts, Load::kOneIdle}) {
      check_experts(world, {.dims = {.dp_replicate = 2, .ep = 2},
                            .batch = 7,
                            .load = load,
                            .steps = 1,
                            .dispatch = Dispatch::kAllGather});
    }
    for (const ParallelDims& dims : {ParallelDims{.tp = 2, .ep = 2}, ParallelDims{.tp = 2}}) {
      check_experts(world, {.dims = dims, .sequence = false});
      check_experts(world, {.dims = dims, .sequence = false, .mixtral = false});
    }
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      check_experts(
          world, {.dims = {.dp_replicate = 2, .ep = 2}, .microbatches = 2, .recompute = recompute});
    }
    check_experts(world, {.dims = {.pp = 2},
                          .microbatches = 4,
                          .kind = ScheduleKind::kZBVZeroBubble,
                          .mixtral = false});
  });
}

TEST(ExpertEngine, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    const std::vector<ParallelDims> layouts{{.dp_replicate = 4, .ep = 4},
                                            {.dp_replicate = 4, .ep = 2},
                                            {.dp_replicate = 2, .tp = 2, .ep = 2},
                                            {.dp_replicate = 2, .tp = 2, .ep = 4},
                                            {.dp_replicate = 4, .ep = 2, .etp = 2},
                                            {.pp = 2, .dp_replicate = 2, .ep = 2},
                                            {.dp_shard = 4, .ep = 2},
                                            {.dp_replicate = 2, .dp_shard = 2, .ep = 2},
                                            {.dp_replicate = 2, .dp_shard = 2, .ep = 4},
                                            {.dp_shard = 4, .ep = 2, .etp = 2},
                                            {.dp_shard = 2, .tp = 2, .ep = 2}};
    for (const ParallelDims& dims : layouts) {
      for (const ExpertCase& c : loads_of({.dims = dims, .microbatches = dims.pp})) {
        check_experts(world, c);
      }
    }
    check_experts(world, {.dims = {.dp_shard = 4, .ep = 2},
                          .microbatches = 2,
                          .batch = 9,
                          .recompute = Recompute::kFull});
  });
}

TEST(ExpertEngine, ExpertsThatEpDoesNotDivideAreRefused) {
  run_ranks(3, [](World& world) {
    const std::string said = testkit::message_of<ConfigError>(
        [&] { check_experts(world, {.dims = {.dp_replicate = 3, .ep = 3}}); });
    RANK_EXPECT(said == "ep 3 does not divide 4 experts; choose a divisor of 4") << said;
  });
}

}  // namespace
}  // namespace tessera
