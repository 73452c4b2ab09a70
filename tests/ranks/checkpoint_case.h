#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/layer/router.h"
#include "tessera/model/weights.h"
#include "tests/ranks/engine_case.h"

/// Models in training, to be saved in one layout and continued in another.
namespace tessera {

/// How the ranks of a layout work together.
struct WayOptions {
  ScheduleKind kind = ScheduleKind::k1F1B;
  bool keep = false;  // zero1: only the optimizer is sharded.
};

/// A layout of the world; "single" is one process, the same on every rank.
struct Way {
  std::string name;
  ParallelDims dims = {};
  WayOptions options = {};

  bool is_single() const { return dims.world() == 1; }
};

/// The model.
struct Subject {
  std::string name;
  LlamaConfig config;
  at::ScalarType dtype = at::kDouble;
};

inline Subject dense(bool tied) {
  return {.name = tied ? "tied" : "untied", .config = config_of(Case{.tied = tied, .layers = 4})};
}

inline Subject experts() {
  return {.name = "experts",
          .config = {.vocab_size = 17,
                     .hidden_size = 8,
                     .intermediate_size = 12,
                     .num_hidden_layers = 3,
                     .num_attention_heads = 4,
                     .num_key_value_heads = 2,
                     .head_dim = 4,
                     .initializer_range = 0.3,
                     .model_type = "mixtral",
                     .num_experts = 4,
                     .num_experts_per_tok = 2,
                     .router_aux_loss_coef = 0.1}};
}

inline constexpr int64_t kRows = 8;
inline constexpr int64_t kPositions = 8;
inline constexpr double kBiasRate = 1e-2;

inline at::Tensor tokens_at(int64_t step) {
  return at::arange(step, step + kRows * kPositions, testkit::here())
      .mul(7)
      .remainder(17)
      .view({kRows, kPositions});
}

// Block 0 also has a router that is balanced by a bias, which training changes without gradients.
inline Unit with_bias(Unit unit, const Subject& subject) {
  const at::Tensor bias = at::zeros({subject.config.num_experts}, testkit::here());
  unit.buffers.emplace_back(unit.name + ".bias", bias);
  unit.forward = [bias, plain = unit.forward](const at::Tensor& x, const Pass& pass) {
    const at::Tensor logits = x.flatten(0, 1).narrow(1, 0, bias.size(0));
    const Routing routing = route(logits, {.top_k = 1, .normalize = false}, bias);
    return plain(x, pass) + routing.weights.view({x.size(0), x.size(1), 1}).to(x.scalar_type());
  };
  return unit;
}

inline Model subject_model(const Subject& subject) {
  Model model = llama_model(subject.config, {.dtype = subject.dtype, .device = testkit::device()});
  if (subject.config.num_experts == 0) return model;
  model.build = [subject, build = model.build](Span units) {
    std::vector<Unit> made = build(units);
    if (units.begin <= 1 && units.end > 1) {
      Unit& block = made[static_cast<size_t>(1 - units.begin)];
      block = with_bias(std::move(block), subject);
    }
    return made;
  };
  return model;
}

/// A model in training.
struct Run {
  Parameters parameters;
  Parameters buffers = {};
  std::unique_ptr<Optimizer> optimizer = nullptr;
  std::function<double(int64_t step)> compute_gradients = {};  // Clipped. Returns the loss.
  std::function<std::optional<BalanceResult>()> balance = {};

  double train(int64_t step) {
    optimizer->zero_grad();
    const double loss = compute_gradients(step);
    optimizer->step(1e-2);
    for (const Parameter& bias : buffers) {
      update_bias_(bias.tensor, balance()->counts[0].to(bias.tensor.device()), kBiasRate);
    }
    return loss;
  }
};

// Expert 3 has no tokens in the first step, so that step counts differ.
inline void set_initial(const Parameters& parameters, const LlamaConfig& config) {
  fill_llama(parameters, config, kSeed);
  for (const Parameter& parameter : parameters) {
    if (!parameter.name.ends_with("gate.weight") || config.num_experts == 0) continue;
    const at::Tensor whole = at::zeros(parameter.place.part.shape(), parameter.tensor.options());
    whole[0][0] = 5;
    whole[1][0] = -5;
    const at::NoGradGuard no_grad;
    const at::Tensor part = elements_of(whole, parameter.place.part);
    replace_data(parameter.tensor, part.view(parameter.tensor.sizes()));
  }
}

using Fill = std::function<void(const Parameters&)>;

// Plain LibTorch, without an engine.
inline Run run_alone(const Model& model) {
  const auto units = std::make_shared<std::vector<Unit>>(model.build({0, model.num_units}));
  Run run{.parameters = parameters_of(*units)};
  for (const Unit& unit : *units) {
    run.buffers.insert(run.buffers.end(), unit.buffers.begin(), unit.buffers.end());
  }
  model.fill(run.parameters);
  const auto result = std::make_shared<std::optional<BalanceResult>>();
  const auto balance = model.balance ? std::make_shared<RouterBalance>(*model.balance) : nullptr;
  run.compute_gradients = [=, loss_of = model.loss, parameters = run.parameters](int64_t step) {
    if (balance) balance->begin(1, testkit::device());
    at::Tensor x = tokens_at(step);
    for (const Unit& unit : *units) x = unit.forward(x, {.balance = balance.get()});
    const at::Tensor loss = loss_of(x, tokens_at(step + 1));
    if (balance) balance->close();
    loss.backward();
    if (balance) *result = balance->end();
    clip_grad_norm_(parameters, 0.5);
    return loss.item<double>();
  };
  run.balance = [result] { return *result; };
  return run;
}

inline Run run_on_ranks(World& world, const Way& way, const Model& model) {
  const int64_t microbatches = way.dims.pp > 1 ? 2 * way.dims.pp : 1;
  const auto engine = std::make_shared<Engine>(
      compose(model, realize(train_plan(world.size(), way.dims), world),
              {.batch = kRows,
               .schedule = make_schedule(
                   {.kind = way.options.kind, .pp = way.dims.pp, .microbatches = microbatches}, {}),
               .device = testkit::device(),
               .fsdp = {.reshard = way.options.keep ? Reshard::kKeep : Reshard::kAllButLast}}));
  Run run{.parameters = engine->parameters(), .buffers = engine->buffers()};
  run.compute_gradients = [engine](int64_t step) {
    const Span rows = engine->rows();
    const auto own = [&](const at::Tensor& all) { return all.slice(0, rows.begin, rows.end); };
    const at::Tensor loss = engine->train_step(own(tokens_at(step)), own(tokens_at(step + 1)));
    clip_grads_(engine->parameters(), engine->grad_norm().item<double>(), 0.5);
    return loss.item<double>();
  };
  run.balance = [engine] { return engine->balance(); };
  return run;
}

// The values are initial ones unless `fill` sets others.
inline Run make_run(World& world, const Way& way, const Subject& subject, Fill fill = {}) {
  Model model = subject_model(subject);
  model.fill = fill ? std::move(fill) : [config = subject.config](const Parameters& parameters) {
    set_initial(parameters, config);
  };
  Run run = way.is_single() ? run_alone(model) : run_on_ranks(world, way, model);
  run.optimizer = std::make_unique<AdamW>(run.parameters);
  return run;
}

}  // namespace tessera
