// Every layout of experts trains as one process does: 20 steps in float64 and in float32, with the
// outputs and all gradients of the first and of the last step, also if ranks get no token. And a
// step sends as many bytes as the formulas say.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tessera/format/llama_size.h"
#include "tessera/model/weights.h"
#include "tessera/parallel/tensor/vocabulary.h"
#include "tessera/plan/traffic.h"
#include "tests/ranks/engine_case.h"

namespace tessera {
namespace {

using testkit::run_ranks;

constexpr int64_t kSteps = 20;
constexpr double kRate = 5e-3;
constexpr int64_t kRows = 8;
constexpr int64_t kLength = 8;

/// How tokens choose experts: two each, unless there is one.
enum class Load {
  kMixed,      // As the router learns it.
  kOneExpert,  // All tokens visit expert 0 alone, in all steps, so that the other ranks get no row.
  kEven,       // Each token visits one of experts 0 and 1, and one of 2 and 3.
};

struct Trial {
  Load load = Load::kMixed;
  at::ScalarType dtype = at::kDouble;

  double tolerance() const { return dtype == at::kDouble ? 1e-10 : 1e-4; }
  LlamaOptions options() const { return {.dtype = dtype, .device = testkit::device()}; }
  auto operator<=>(const Trial&) const = default;
};

LlamaConfig config_of(const Trial& trial) {
  return {.vocab_size = 17,
          .hidden_size = 8,
          .intermediate_size = 12,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .initializer_range = 0.3,
          .model_type = "mixtral",
          .num_experts = 4,
          .num_experts_per_tok = trial.load == Load::kOneExpert ? 1 : 2,
          .router_aux_loss_coef = 0.1};
}

at::Tensor whole_of(const Parameter& parameter, double value) {
  return at::full(parameter.place.part.shape(), value, parameter.tensor.options());
}

void set(const Parameter& parameter, const at::Tensor& whole) {
  const at::Tensor part = elements_of(whole, parameter.place.part);
  replace_data(parameter.tensor, part.view(parameter.tensor.sizes()));
}

// The factors of the first element of a hidden state in the logits of a router; it reads nothing
// else.
std::array<double, 4> factors_of(Load load) {
  if (load == Load::kEven) return {5, -5, 4.5, -4.5};
  return {6, 3, -2, -3};
}

// All hidden states get a large first element, so that logits are far apart.
void fill(const Parameters& parameters, const Trial& trial) {
  fill_llama(parameters, config_of(trial), kSeed);
  if (trial.load == Load::kMixed) return;
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters) {
    if (parameter.name.ends_with("gate.weight")) {
      const at::Tensor whole = whole_of(parameter, 0);
      whole.select(1, 0).copy_(at::tensor(factors_of(trial.load)));
      set(parameter, whole);
    } else if (parameter.name == "model.embed_tokens.weight") {
      const at::Tensor whole =
          at::sin(at::arange(17 * 8, parameter.tensor.options())).view({17, 8});
      whole.select(1, 0).fill_(8);
      set(parameter, whole);
    }
  }
}

at::Tensor tokens(int64_t step) {
  return at::arange(step, step + kRows * kLength, testkit::here())
      .mul(7)
      .remainder(17)
      .view({kRows, kLength});
}

struct Step {
  std::vector<double> scalars = {};  // Loss, norm and balancing loss.
  at::Tensor counts = {};
  at::Tensor logits = {};
  std::map<std::string, at::Tensor> gradients = {};  // None of idle experts.
};

struct Alone {
  Llama model;
  std::vector<Step> steps = {};
};

Step step_alone(const Llama& model, RouterBalance& balance, int64_t step) {
  const Parameters parameters = model.named_parameters();
  balance.begin(1, testkit::device());
  Step done{.logits = model.forward(tokens(step), {.balance = &balance})};
  const at::Tensor loss = token_loss(done.logits, tokens(step + 1));
  balance.close();
  loss.backward();
  done.logits = done.logits.detach();
  const BalanceResult result = balance.end();
  done.scalars = {loss.item<double>(), clip_grad_norm_(parameters, 1e9), result.loss};
  done.counts = result.counts;
  for (const Parameter& parameter : parameters) {
    if (parameter.tensor.grad().defined())
      done.gradients[parameter.name] = parameter.tensor.grad().clone();
  }
  return done;
}

// Without an engine: one forward pass of the whole batch.
Alone train_alone(const Trial& trial) {
  Alone alone{Llama(config_of(trial), trial.options())};
  const Parameters parameters = alone.model.named_parameters();
  fill(parameters, trial);
  AdamW optimizer(parameters, {.weight_decay = 0.1});
  RouterBalance balance(*llama_model(config_of(trial)).balance);
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    alone.steps.push_back(step_alone(alone.model, balance, step));
    optimizer.step(kRate);
  }
  return alone;
}

/// A layout on the ranks of a test. One process trains once per trial.
class Layouts {
 public:
  explicit Layouts(World& world) : world_(world) {}

  /// That it trains as one process.
  void check(const ParallelDims& dims) {
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      for (const Load load : {Load::kMixed, Load::kOneExpert}) {
        check(dims, {load, dtype});
      }
    }
  }

  /// That a step sends what plan/traffic.h says.
  void check_bytes(const ParallelDims& dims);

 private:
  const Alone& alone(const Trial& trial) {
    const auto known = alone_.find(trial);
    if (known != alone_.end()) return known->second;
    const Alone& made = alone_.emplace(trial, train_alone(trial)).first->second;
    for (const Step& step : made.steps) {
      const bool idle = step.counts.slice(1, 1).eq(0).all().item<bool>();
      RANK_EXPECT(idle == (trial.load == Load::kOneExpert)) << step.counts;
    }
    return made;
  }

  void check(const ParallelDims& dims, const Trial& trial) {
    const Alone& expected = alone(trial);
    text_ = concat(dims, ", load ", static_cast<int>(trial.load), ", ", trial.dtype);
    near_ = trial.tolerance();
    logits_.clear();
    Engine engine = engine_of(dims, trial);
    AdamW optimizer(engine.parameters(), {.weight_decay = 0.1});
    const Span rows = engine.rows();
    const auto mine = [&](int64_t step) { return tokens(step).slice(0, rows.begin, rows.end); };
    for (int64_t step = 0; step < kSteps; ++step) {
      optimizer.zero_grad();
      logits_.clear();
      const double loss = engine.train_step(mine(step), mine(step + 1)).item<double>();
      const Step& other = expected.steps[static_cast<size_t>(step)];
      RANK_EXPECT(are_close({loss, engine.grad_norm().item<double>(), engine.balance()->loss},
                            other.scalars, near_))
          << text_ << ", step " << step;
      RANK_EXPECT(engine.balance()->counts.equal(other.counts)) << text_ << ", step " << step;
      if (step == 0 || step + 1 == kSteps) {
        expect_logits(engine, other.logits);
        expect_gradients(engine.parameters(), other.gradients);
      }
      optimizer.step(kRate);
    }
    expect_same_parameters({}, engine.parameters(), expected.model, near_);
  }

  Engine engine_of(const ParallelDims& dims, const Trial& trial) {
    Model model = llama_model(config_of(trial), trial.options());
    model.fill = [trial](const Parameters& parameters) { fill(parameters, trial); };
    model.loss = [this, loss = model.loss](const at::Tensor& logits, const at::Tensor& targets,
                                           const Pass& pass) {
      logits_.push_back(logits.detach());
      return loss(logits, targets, pass);
    };
    return compose(model, realize(train_plan(world_.size(), dims), world_),
                   {.batch = kRows,
                    .schedule = make_schedule(
                        {.kind = ScheduleKind::k1F1B, .pp = dims.pp, .microbatches = dims.pp}, {}),
                    .device = testkit::device()});
  }

  // Of this rank's rows, positions and tokens of the vocabulary; none before the last stage.
  void expect_logits(const Engine& engine, const at::Tensor& whole) const {
    const Group& pp = engine.plan().group("pp");
    RANK_EXPECT(logits_.empty() == (pp.rank().value + 1 < pp.size())) << text_;
    if (logits_.empty()) return;
    const TensorParallel tensor{engine.plan().group("tp")};
    const Span entries = vocabulary_rows(whole.size(2), {.tensor = &tensor}).rows;
    const Span rows = engine.rows();
    const at::Tensor own =
        whole.slice(0, rows.begin, rows.end).slice(2, entries.begin, entries.end);
    const ContextParallel context({.cp = engine.plan().group("cp")}, {});
    RANK_EXPECT(at::allclose(at::cat(logits_), context.cut(own), near_, near_)) << text_;
  }

  void expect_gradients(const Parameters& mine,
                        const std::map<std::string, at::Tensor>& expected) const {
    for (const Parameter& parameter : mine) {
      const at::Tensor& gradient = parameter.tensor.grad();
      const auto whole = expected.find(parameter.name);
      RANK_EXPECT(gradient.defined() == (whole != expected.end())) << parameter.name << text_;
      if (!gradient.defined() || whole == expected.end()) continue;
      const at::Tensor part = elements_of(whole->second, parameter.place.part);
      RANK_EXPECT(at::allclose(gradient.reshape(-1), part, near_, near_))
          << parameter.name << "; " << text_;
    }
  }

  World& world_;
  std::map<Trial, Alone> alone_ = {};
  std::vector<at::Tensor> logits_ = {};  // Of the microbatches of this step.
  std::string text_ = "";
  double near_ = 0;
};

TrainingStep training_step(const ParallelDims& dims, const LlamaConfig& config) {
  return {.hidden = config.hidden_size,
          .layers = config.num_hidden_layers,
          .sequence = kLength,
          .micro_batch = kRows / dims.dp_replicate,
          .experts_per_token = config.num_experts_per_tok,
          .parameters = parameter_count(config),
          .expert_parameters = expert_parameter_count(config),
          .element_bytes = 4,
          .sequence_parallel = true};
}

// What is not in the formulas. Before the rows, each layer exchanges how many there are for each
// expert, and the ranks of etp the shapes of what they gather, in the forward and in the backward
// pass: 16 sizes. The ranks of DDP report two float64 for each parameter, two for each rank, and
// two.
SentBytes small_messages(const Engine& engine, const LlamaConfig& config) {
  const auto size = [&](const char* group) { return engine.plan().group(group).size(); };
  const int64_t sizes = config.num_hidden_layers * 8;
  const int64_t experts = std::ranges::count_if(
      engine.parameters(), [](const Parameter& parameter) { return parameter.expert.has_value(); });
  const int64_t others = static_cast<int64_t>(engine.parameters().size()) - experts;
  const auto reduced = [&](const char* group, int64_t parameters) {
    return 2 * 8 * 2 * (parameters + size(group) + 1) * (size(group) - 1) / size(group);
  };
  return {{"ep", sizes * config.num_experts / size("ep") * (size("ep") - 1)},
          {"etp", sizes * (config.num_experts + 2 * 16) * (size("etp") - 1)},
          {"grad", reduced("grad", others)},
          {"expert_grad", reduced("expert_grad", experts)}};
}

// What a second step sends: in the first one DDP agrees on its buckets.
SentBytes bytes_of_step(Engine& engine, const LlamaConfig& config) {
  const Span rows = engine.rows();
  const auto mine = [&](int64_t step) { return tokens(step).slice(0, rows.begin, rows.end); };
  engine.train_step(mine(0), mine(1));
  const SentBytes before = engine.sent_bytes();
  engine.train_step(mine(0), mine(1));
  SentBytes sent = engine.sent_bytes();
  for (const auto& [group, bytes] : before) sent[group] -= bytes;
  for (const auto& [group, bytes] : small_messages(engine, config)) sent[group] -= bytes;
  return sent;
}

// By layer and expert, of the tokens of these rows.
at::Tensor counts_of(const Llama& model, const Span& rows) {
  RouterBalance balance(*llama_model(model.config()).balance);
  balance.begin(1, testkit::device());
  const at::NoGradGuard no_grad;
  model.forward(tokens(0).slice(0, rows.begin, rows.end), {.balance = &balance});
  balance.close();
  return balance.end().counts;
}

// By what the routers of one process say, if all ranks have different rows.
double bytes_by_routers(const Engine& engine, const Trial& trial, const TrainingStep& step) {
  const Llama whole(config_of(trial), trial.options());
  fill(whole.named_parameters(), trial);
  const Group& ep = engine.plan().group("ep");
  const auto here = [&](const at::Tensor& counts) {
    return counts.chunk(ep.size(), 1)[static_cast<size_t>(ep.rank().value)].sum().item<double>();
  };
  const at::Tensor own = counts_of(whole, engine.rows());
  const double out = own.sum().item<double>() - here(own);
  const double in = here(counts_of(whole, {0, kRows})) - here(own);
  return dispatch_bytes(out, in, step);
}

void Layouts::check_bytes(const ParallelDims& dims) {
  const Trial even{Load::kEven, at::kFloat}, mixed{Load::kMixed, at::kFloat};
  const TrainingStep step = training_step(dims, config_of(even));
  Engine engine = engine_of(dims, even);
  SentBytes sent = bytes_of_step(engine, config_of(even));
  for (const Traffic& traffic : traffic_of(train_layout(dims, "ddp", true), step)) {
    // The formula of tp leaves the loss out; Load::kEven is uneven for four ranks.
    if (traffic.name == "tp" || (traffic.name == "ep" && dims.ep > 2)) continue;
    RANK_EXPECT(static_cast<double>(sent[traffic.name]) == traffic.bytes)
        << dims << ", " << traffic.name << ": " << sent[traffic.name] << ", not " << traffic.bytes;
  }
  if (dims.dp_replicate != dims.ep) return;
  Engine uneven = engine_of(dims, mixed);
  const int64_t bytes = bytes_of_step(uneven, config_of(mixed))["ep"];
  const double expected = bytes_by_routers(uneven, mixed, step);
  RANK_EXPECT(static_cast<double>(bytes) == expected)
      << dims << ": " << bytes << ", not " << expected;
}

TEST(ExpertLayouts, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    Layouts layouts(world);
    layouts.check({.dp_replicate = 2, .ep = 2});
    layouts.check({.cp = 2, .ep = 2});
    layouts.check_bytes({.dp_replicate = 2, .ep = 2});
    layouts.check_bytes({.dp_replicate = 2, .etp = 2});
    layouts.check_bytes({.dp_replicate = 2});
    layouts.check_bytes({.tp = 2, .ep = 2});
  });
}

TEST(ExpertLayouts, FourRanksTrainAsOneProcess) {
  run_ranks(4, [](World& world) {
    Layouts layouts(world);
    layouts.check({.dp_replicate = 4, .ep = 4});
    layouts.check({.dp_replicate = 4, .ep = 2});
    layouts.check({.dp_replicate = 2, .tp = 2, .ep = 2});
    layouts.check({.dp_replicate = 4, .ep = 2, .etp = 2});
    layouts.check({.dp_replicate = 2, .cp = 2, .ep = 2});
    layouts.check({.pp = 2, .dp_replicate = 2, .ep = 2});
    layouts.check({.dp_shard = 4, .ep = 2});
    layouts.check_bytes({.dp_replicate = 4, .ep = 2});
    layouts.check_bytes({.dp_replicate = 4, .ep = 4});
    layouts.check_bytes({.dp_replicate = 4, .ep = 2, .etp = 2});
  });
}

}  // namespace
}  // namespace tessera
