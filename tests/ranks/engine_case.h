#pragma once

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/format/weight_files.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tessera/optim/sgd.h"
#include "tessera/plan/train_plan.h"
#include "tessera/schedule/search.h"
#include "tessera/train/compose.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

/// A Llama on the ranks of a layout, compared with the same Llama in one process.
namespace tessera {

inline constexpr uint64_t kSeed = 3;
// The same sums in another order: a few thousand additions of numbers near 1.
inline constexpr double kExact = 1e-11;

struct Case {
  int64_t dp = 1;
  int64_t pp = 1;
  ScheduleKind kind = ScheduleKind::k1F1B;
  int64_t microbatches = 4;
  bool tied = false;
  int64_t batch = 8;
  bool adamw = false;
  int64_t shard = 1;
  FsdpOptions fsdp = {};
  Recompute recompute = Recompute::kNone;
  int64_t steps = 3;
  double rate = 0.1;
  int64_t tp = 1;
  bool sequence = true;
  bool tensor_async = false;
  int64_t layers = 8;
};

inline std::string text_of(const Case& c) {
  return concat(
      "dp ", c.dp, " × pp ", c.pp, ", ", to_string(c.kind), ", ", c.microbatches,
      " microbatches of ", c.batch, " rows", c.tied ? ", tied" : "", c.adamw ? ", AdamW" : "",
      c.shard > 1 ? concat(", shards ", c.shard, ", policy ", static_cast<int>(c.fsdp.reshard))
                  : "",
      ", recompute ", static_cast<int>(c.recompute), ", tp ", c.tp, c.sequence ? "" : " without sp",
      c.tensor_async ? ", asynchronous" : "");
}

inline LlamaConfig config_of(const Case& c) {
  return {.vocab_size = 17,
          .hidden_size = 8,
          .intermediate_size = 16,
          .num_hidden_layers = c.layers,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 2,
          .tie_word_embeddings = c.tied,
          .initializer_range = 0.3};
}

// Tokens that differ from step to step, the same on every rank.
inline at::Tensor tokens(const Case& c, int64_t step) {
  return at::arange(step, step + c.batch * 6, testkit::here())
      .mul(7)
      .remainder(17)
      .view({c.batch, 6});
}

inline at::Tensor targets(const Case& c, int64_t step) {
  return tokens(c, step + 1);
}

inline std::unique_ptr<Optimizer> optimizer_of(const Case& c, const Parameters& parameters) {
  if (c.adamw) return std::make_unique<AdamW>(parameters);
  return std::make_unique<Sgd>(parameters, SgdOptions{.momentum = 0.9});
}

struct Trained {
  std::vector<double> losses = {};
  std::vector<double> norms = {};
  double evaluated = 0;
};

inline Trained train(const Case& c, Engine& engine) {
  Trained trained;
  const auto optimizer = optimizer_of(c, engine.parameters());
  const Span rows = engine.rows();
  const auto mine = [&](const at::Tensor& all) { return all.slice(0, rows.begin, rows.end); };
  for (int64_t step = 0; step < c.steps; ++step) {
    optimizer->zero_grad();
    const at::Tensor loss = engine.train_step(mine(tokens(c, step)), mine(targets(c, step)));
    trained.losses.push_back(loss.item<double>());
    trained.norms.push_back(engine.grad_norm().item<double>());
    clip_grads_(engine.parameters(), trained.norms.back(), 0.5);
    optimizer->step(c.rate);
    trained.evaluated = engine.evaluate(mine(tokens(c, 9)), mine(targets(c, 9))).item<double>();
  }
  return trained;
}

struct Reference {
  Llama model;
  Trained trained = {};
};

// Plain LibTorch, without an engine.
inline Reference train_alone(const Case& c, at::ScalarType dtype = at::kDouble) {
  Reference alone{Llama(config_of(c), {.dtype = dtype, .device = testkit::device()})};
  const Llama& model = alone.model;
  alone.model.initialize(kSeed);
  const auto optimizer = optimizer_of(c, model.named_parameters());
  for (int64_t step = 0; step < c.steps; ++step) {
    optimizer->zero_grad();
    const at::Tensor loss = token_loss(model.forward(tokens(c, step)), targets(c, step));
    loss.backward();
    alone.trained.losses.push_back(loss.item<double>());
    alone.trained.norms.push_back(clip_grad_norm_(model.named_parameters(), 0.5));
    optimizer->step(c.rate);
  }
  const at::NoGradGuard no_grad;
  alone.trained.evaluated = token_loss(model.forward(tokens(c, 9)), targets(c, 9)).item<double>();
  return alone;
}

inline bool are_close(const std::vector<double>& a, const std::vector<double>& b,
                      double tolerance) {
  return at::allclose(at::tensor(a), at::tensor(b), tolerance, tolerance);
}

// The elements of the whole that the part holds.
inline at::Tensor elements_of(const at::Tensor& whole, const Part& part) {
  std::vector<at::Tensor> runs;
  for (const Span& span : part.spans()) {
    runs.push_back(whole.detach().reshape(-1).slice(0, span.begin, span.end));
  }
  return at::cat(runs);
}

inline void expect_same_parameters(const Case& c, const Parameters& mine, const Llama& whole,
                                   double tolerance) {
  std::map<std::string, at::Tensor> expected;
  for (const Parameter& parameter : whole.named_parameters())
    expected[parameter.name] = parameter.tensor;
  for (const Parameter& parameter : mine) {
    const at::Tensor part = elements_of(expected.at(parameter.name), parameter.place.part);
    const at::Tensor own = parameter.tensor.detach().reshape(-1).to(part.options());
    RANK_EXPECT(at::allclose(own, part, tolerance, tolerance))
        << parameter.name << "; " << text_of(c);
  }
}

inline Schedule schedule_of(const Case& c) {
  return make_schedule({.kind = c.kind, .pp = c.pp, .microbatches = c.microbatches}, {});
}

// The values come from files, or are initial ones.
inline Engine engine_of(const World& world, const Case& c, at::ScalarType dtype,
                        const WeightFiles* files = nullptr) {
  const LlamaConfig config = config_of(c);
  Model model = llama_model(config, {.dtype = dtype, .device = testkit::device()});
  model.fill = [config, files](const Parameters& parameters) {
    if (files != nullptr) return fill_llama(parameters, config, *files);
    fill_llama(parameters, config, kSeed);
  };
  const Plan plan =
      train_plan(world.size(), {.pp = c.pp, .dp_replicate = c.dp, .dp_shard = c.shard, .tp = c.tp});
  return compose(model, realize(plan, world),
                 {.batch = c.batch,
                  .schedule = schedule_of(c),
                  .device = testkit::device(),
                  .sequence = c.sequence,
                  .tensor_async = c.tensor_async,
                  .recompute = c.recompute,
                  .fsdp = c.fsdp});
}

// What a run gives, compared with one process of the same precision.
struct Precision {
  at::ScalarType dtype = at::kDouble;
  double tolerance = kExact;
};

inline void check_case(World& world, const Case& c, const Precision& precision = {}) {
  Engine engine = engine_of(world, c, precision.dtype);
  const Trained trained = train(c, engine);
  const Reference alone = train_alone(c, precision.dtype);
  const double near = precision.tolerance;
  // A gradient has passed through more products than a loss or the step of a parameter: where the
  // norm of these cases doubles from one step to the next, rounding that depends on the processor's
  // vectors differs by 1.5e-12 after ten steps in fp64.
  const double near_norm = 10 * near;
  RANK_EXPECT(are_close(trained.losses, alone.trained.losses, near)) << text_of(c);
  RANK_EXPECT(are_close(trained.norms, alone.trained.norms, near_norm)) << text_of(c);
  RANK_EXPECT(are_close({trained.evaluated}, {alone.trained.evaluated}, near)) << text_of(c);
  expect_same_parameters(c, engine.parameters(), alone.model, near);
}

}  // namespace tessera
