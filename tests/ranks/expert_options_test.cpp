// Experts with a capacity, with a shared expert, and with a balancing loss per sequence, on ranks
// that divide them, compared with one process.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/layer/router_capacity.h"
#include "tessera/model/llama.h"
#include "tessera/model/weights.h"
#include "tests/ranks/engine_case.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::run_ranks;

struct OptionCase {
  ParallelDims dims = {};
  int64_t microbatches = 1;
  CapacityOptions capacity = {};
  BalanceKind balance = BalanceKind::kModel;
  bool shared = false;  // A shared expert.
  double coefficient = 0.1;
  int64_t batch = 8;
  bool sequence = true;
  Recompute recompute = Recompute::kNone;
  ScheduleKind kind = ScheduleKind::k1F1B;
  Dispatch dispatch = Dispatch::kAllToAll;
  /// All tokens visit expert 0 alone, in every step: equal logits go to the lowest expert, and a
  /// single weight of 1 leaves the router without a gradient.
  bool one_expert = false;
  int64_t steps = 2;
};

std::string text_of(const OptionCase& c) {
  return concat(c.dims, ", ", c.microbatches, " microbatches of ", c.batch, " rows, capacity ",
                c.capacity.factor, " by ", static_cast<int>(c.capacity.policy), ", balance ",
                static_cast<int>(c.balance), c.shared ? ", shared" : "",
                c.sequence ? "" : ", no sp", ", recompute ", static_cast<int>(c.recompute),
                c.dispatch == Dispatch::kAllGather ? ", all-gather" : "",
                c.one_expert ? ", one expert" : "");
}

constexpr int64_t kExpertWidth = 12;
constexpr int64_t kSharedWidth = 6;

LlamaConfig config_of(const OptionCase& c) {
  LlamaConfig config{.vocab_size = 17,
                     .hidden_size = 8,
                     .intermediate_size = kExpertWidth,
                     .num_hidden_layers = c.kind == ScheduleKind::kZBVZeroBubble ? 4 : 3,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2,
                     .head_dim = 2,
                     .initializer_range = 0.3,
                     .model_type = "mixtral",
                     .num_experts = 4,
                     .num_experts_per_tok = c.one_expert ? 1 : 2,
                     .router_aux_loss_coef = c.coefficient};
  if (!c.shared) return config;
  config.model_type = "qwen2_moe";
  config.qkv_bias = true;
  config.norm_topk_prob = false;
  config.shared_expert_intermediate_size = kSharedWidth;
  return config;
}

void fill(const Parameters& parameters, const OptionCase& c) {
  fill_llama(parameters, config_of(c), kSeed);
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters) {
    if (c.one_expert && parameter.name.ends_with(".gate.weight")) parameter.tensor.zero_();
  }
}

Model model_of(const OptionCase& c, const LlamaOptions& options) {
  Model model = llama_model(config_of(c), options);
  model.balance->kind = c.balance;
  model.fill = [c](const Parameters& parameters) { fill(parameters, c); };
  return model;
}

// Two rows each begin alike, so some tokens have equal weights up to rounding, and an expert must
// keep the first ones.
at::Tensor tokens(const OptionCase& c, int64_t step) {
  const at::Tensor position = at::arange(step, step + 8, testkit::here()).unsqueeze(0);
  const at::Tensor any = at::arange(c.batch, testkit::here()).unsqueeze(1);
  const at::Tensor row = at::where(position < step + 4, any.div(2, "floor"), any);
  return (row * (1 + position * (position + 2)) + position * position * 5).remainder(17);
}

struct Outcome {
  std::vector<double> losses = {};  // And norms and balancing losses.
  at::Tensor counts = {};
  at::Tensor dropped = {};
};

Outcome train(const OptionCase& c, Engine& engine) {
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
    outcome.dropped = engine.balance()->dropped;
    optimizer.step(1e-2);
  }
  outcome.losses.push_back(engine.evaluate(mine(9), mine(10)).item<double>());
  return outcome;
}

// Without an engine: one forward pass of the whole batch.
Outcome train_alone(const OptionCase& c, const Llama& model) {
  Outcome outcome;
  const Parameters parameters = model.named_parameters();
  fill(parameters, c);
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  RouterBalance balance(*model_of(c, {}).balance);
  std::optional<RouterCapacity> capacity;
  if (c.capacity.factor > 0) capacity.emplace(c.capacity, config_of(c).num_experts);
  for (int64_t step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    balance.begin(1, testkit::device());
    if (capacity) capacity->begin();
    const Pass pass{.balance = &balance, .capacity = capacity ? &*capacity : nullptr};
    const at::Tensor loss = token_loss(model.forward(tokens(c, step), pass), tokens(c, step + 1));
    balance.close();
    loss.backward();
    if (capacity) capacity->end();
    const BalanceResult result = balance.end();
    outcome.losses.insert(outcome.losses.end(),
                          {loss.item<double>(), clip_grad_norm_(parameters, 1e9), result.loss});
    outcome.counts = result.counts;
    optimizer.step(1e-2);
  }
  const at::NoGradGuard no_grad;
  outcome.losses.push_back(token_loss(model.forward(tokens(c, 9)), tokens(c, 10)).item<double>());
  return outcome;
}

Engine engine_of(World& world, const OptionCase& c, Model model) {
  return compose(model, realize(train_plan(world.size(), c.dims), world),
                 {.batch = c.batch,
                  .schedule = make_schedule(
                      {.kind = c.kind, .pp = c.dims.pp, .microbatches = c.microbatches}, {}),
                  .device = testkit::device(),
                  .sequence = c.sequence,
                  .dispatch = c.dispatch,
                  .capacity = c.capacity,
                  .recompute = c.recompute});
}

// Returns the result of one process.
Outcome check_options(World& world, const OptionCase& c) {
  const LlamaOptions options{.dtype = at::kDouble, .device = testkit::device()};
  Engine engine = engine_of(world, c, model_of(c, options));
  const Outcome trained = train(c, engine);
  const Llama whole(config_of(c), options);
  const Outcome alone = train_alone(c, whole);
  RANK_EXPECT(are_close(trained.losses, alone.losses, 1e-10))
      << text_of(c) << ": " << trained.losses << " and " << alone.losses;
  RANK_EXPECT(trained.counts.equal(alone.counts)) << text_of(c);
  expect_same_parameters({}, engine.parameters(), whole, 1e-10);
  if (c.capacity.factor == 0) return alone;
  const auto most = static_cast<double>(
      expert_capacity(c.capacity.factor, alone.counts[0].sum().item<int64_t>(), 4));
  RANK_EXPECT(trained.dropped.equal((alone.counts - most).clamp_min(0))) << text_of(c);
  RANK_EXPECT(trained.dropped.sum().item<double>() > 0) << text_of(c);
  return alone;
}

// A layout with each option.
void check_all(World& world, OptionCase c) {
  c.shared = true;
  check_options(world, c);
  c.capacity = {.factor = 1};
  check_options(world, c);
  c.shared = false;
  c.capacity = {.factor = 0.8, .policy = DropPolicy::kPosition};
  check_options(world, c);
  c.capacity = {};
  c.balance = BalanceKind::kSequence;
  check_options(world, c);
}

// For 20 steps, three of four experts and the ranks of ep that hold them get no token.
void check_one_expert(World& world, const ParallelDims& dims) {
  OptionCase c{.dims = dims, .coefficient = 0, .one_expert = true, .steps = 20};
  for (const Dispatch dispatch : {Dispatch::kAllToAll, Dispatch::kAllGather}) {
    c.dispatch = dispatch;
    const Outcome alone = check_options(world, c);
    RANK_EXPECT(alone.counts.slice(1, 1).sum().item<double>() == 0) << text_of(c);
  }
  c.steps = 2;
  c.capacity = {.factor = 2};
  check_options(world, c);
}

TEST(ExpertOptions, SlicesOfOneRankTrainAsOneBatch) {
  run_ranks(1, [](World& world) {
    check_all(world, {});
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      check_all(world, {.microbatches = 3, .recompute = recompute});
    }
    check_options(world, {.microbatches = 2, .capacity = {.factor = 0.5}, .coefficient = 0});
    const std::string said = testkit::message_of<ConfigError>([&] {
      engine_of(world, {.capacity = {.factor = 1.5}}, llama_model({.num_hidden_layers = 1}));
    });
    RANK_EXPECT(said ==
                "a capacity factor of 1.5 limits experts, but the model has none; leave it out")
        << said;
  });
}

/// The order of exchanges over ep and of the products around them in a step, on this thread.
class Recorded {
 public:
  explicit Recorded(const Engine& engine)
      : handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback([](const at::RecordFunction& call)
                                           -> std::unique_ptr<at::ObserverContext> {
              note(call);
              return nullptr;
            }).needsInputs(true))) {
    state() = {.engine = &engine, .sent = engine.sent_bytes()["ep"]};
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  ~Recorded() { at::removeCallback(handle_); }

  const std::vector<std::string>& events() const& { return state().events; }

 private:
  struct State {
    const Engine* engine = nullptr;
    int64_t sent = 0;  // Bytes over ep so far.
    std::vector<std::string> events = {};
  };
  static State& state() {
    static State state;
    return state;
  }

  static void note(const at::RecordFunction& call) {
    const std::string name = call.name();
    if (name.find("evaluate_function") != std::string::npos &&
        name.find("Rows") != std::string::npos) {
      push("rows backward");
    }
    const bool backward = name == "aten::silu_backward";
    if (name != "aten::silu" && !backward) return;
    const int64_t width = call.inputs()[0].toTensor().size(-1);
    push(concat(width == kSharedWidth ? "shared" : "experts", backward ? " backward" : ""));
  }

  static void push(const std::string& event) {
    constexpr int64_t kNumbers = 2 * 8;  // The numbers of rows of the other rank's two experts.
    const int64_t sent = state().engine->sent_bytes()["ep"];
    if (sent > state().sent + kNumbers) state().events.emplace_back("exchange");
    state().sent = sent;
    state().events.push_back(event);
  }

  at::CallbackHandle handle_;
};

// The last exchange before the backward of the experts is that of the gradients of their results.
void check_overlap(World& world) {
  const OptionCase c{.dims = {.dp_replicate = 2, .ep = 2}, .shared = true};
  LlamaConfig config = config_of(c);
  config.num_hidden_layers = 1;
  Model model = llama_model(config, {.device = testkit::device()});
  model.fill = [config](const Parameters& parameters) { fill_llama(parameters, config, kSeed); };
  Engine engine = engine_of(world, c, model);
  const Span rows = engine.rows();
  const at::Tensor mine = tokens(c, 0).slice(0, rows.begin, rows.end);
  const Recorded recorded(engine);
  engine.train_step(mine, mine);
  const std::vector<std::string> expected{"exchange",        "shared",           "experts",
                                          "exchange",        "experts backward", "exchange",
                                          "shared backward", "rows backward"};
  RANK_EXPECT(recorded.events() == expected) << join(recorded.events(), ", ");
}

TEST(ExpertOptions, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    for (const ParallelDims& dims :
         {ParallelDims{.dp_replicate = 2, .ep = 2}, ParallelDims{.dp_replicate = 2},
          ParallelDims{.dp_shard = 2, .ep = 2}, ParallelDims{.tp = 2},
          ParallelDims{.tp = 2, .ep = 2}, ParallelDims{.tp = 2, .etp = 2}, ParallelDims{.cp = 2},
          ParallelDims{.cp = 2, .ep = 2}, ParallelDims{.pp = 2}}) {
      check_all(world, {.dims = dims, .microbatches = dims.pp});
    }
    check_all(world, {.dims = {.tp = 2, .ep = 2}, .sequence = false});
    check_all(world, {.dims = {.tp = 2}, .microbatches = 2, .sequence = false});
    check_all(world, {.dims = {.dp_replicate = 2, .ep = 2}, .dispatch = Dispatch::kAllGather});
    check_all(world, {.dims = {.dp_replicate = 2, .ep = 2},
                      .microbatches = 2,
                      .batch = 7,
                      .recompute = Recompute::kFull});
    check_all(world, {.dims = {.pp = 2}, .microbatches = 4, .kind = ScheduleKind::kZBVZeroBubble});
    check_overlap(world);
    for (const ParallelDims& dims :
         {ParallelDims{.dp_replicate = 2, .ep = 2}, ParallelDims{.tp = 2, .ep = 2}}) {
      check_one_expert(world, dims);
    }
  });
}

TEST(ExpertOptions, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    for (const ParallelDims& dims : {ParallelDims{.dp_replicate = 2, .tp = 2, .ep = 4},
                                     ParallelDims{.pp = 2, .dp_replicate = 2, .ep = 2},
                                     ParallelDims{.cp = 2, .tp = 2, .ep = 2},
                                     ParallelDims{.dp_shard = 4, .ep = 2, .etp = 2}}) {
      check_all(world, {.dims = dims, .microbatches = dims.pp});
    }
    check_one_expert(world, {.dp_replicate = 4, .ep = 4});
    check_one_expert(world, {.dp_shard = 4, .ep = 2});
  });
}

}  // namespace
}  // namespace tessera
