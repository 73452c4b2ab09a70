#pragma once

#include <ATen/ATen.h>

#include <string>

#include "tests/ranks/engine_case.h"

/// A Llama whose sequences are split over ranks, compared with plain LibTorch in one process.
namespace tessera {

struct ContextCase {
  ParallelDims dims = {.cp = 2};
  ContextParallelOptions options = {};
  bool documents = false;
  int64_t slices = 1;  // Or microbatches.
  bool sequence = true;
  Recompute recompute = Recompute::kNone;
  FsdpOptions fsdp = {};
  int64_t window = 0;  // Of a sliding window; 0: none.
  int64_t steps = 20;
  at::ScalarType dtype = at::kDouble;
};

inline std::string text_of(const ContextCase& c) {
  return concat(c.dims, ", ", c.options.type, ", ", c.options.layout,
                c.documents ? ", documents" : "", ", recompute ", static_cast<int>(c.recompute),
                c.sequence ? "" : ", without sp", ", window ", c.window, ", ", c.dtype);
}

inline constexpr int64_t kContextRows = 4;
inline constexpr int64_t kContextLength = 24;

inline LlamaConfig context_config(const ContextCase& c) {
  return {.vocab_size = 17,
          .hidden_size = 16,
          .intermediate_size = 16,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .head_dim = 4,
          .initializer_range = 0.3,
          .model_type = c.window > 0 ? "mistral" : "llama",
          .sliding_window = c.window};
}

struct ContextBatch {
  at::Tensor inputs, targets;
  at::Tensor documents = {};
};

// The same on every rank. Token 0 ends a document; rows have different documents, and one has a
// single one.
inline ContextBatch context_batch(const ContextCase& c, int64_t step) {
  const at::Tensor ids = at::arange(kContextRows * (kContextLength + 1))
                             .mul(step % 5 + 2)
                             .add(step)
                             .remainder(17)
                             .view({kContextRows, kContextLength + 1})
                             .clone();
  ids[1].masked_fill_(ids[1] == 0, 3);
  ContextBatch batch{.inputs = ids.narrow(1, 0, kContextLength).clone(),
                     .targets = ids.narrow(1, 1, kContextLength).clone()};
  if (!c.documents) return batch;
  const at::Tensor ends = batch.inputs == 0;
  batch.targets.masked_fill_(ends, kIgnoredTarget);
  batch.documents = at::cat(
      {at::zeros({kContextRows, 1}, at::kLong), ends.narrow(1, 0, kContextLength - 1).cumsum(1)},
      1);
  return batch;
}

// The loss of one document after the other, each a sequence of its own.
inline at::Tensor loss_alone(const Llama& model, const ContextBatch& batch) {
  std::vector<at::Tensor> logits;
  const PackedRows rows = batch.documents.defined() ? packed_rows(batch.documents)
                                                    : PackedRows(static_cast<size_t>(kContextRows),
                                                                 DocumentLengths{kContextLength});
  for (int64_t row = 0; row < kContextRows; ++row) {
    int64_t begin = 0;
    for (const int64_t length : rows[static_cast<size_t>(row)]) {
      const at::Tensor text = batch.inputs.narrow(0, row, 1).narrow(1, begin, length);
      logits.push_back(model.forward(text.to(testkit::device()))[0]);
      begin += length;
    }
  }
  return at::cross_entropy_loss(at::cat(logits), batch.targets.flatten().to(testkit::device()), {},
                                at::Reduction::Mean, kIgnoredTarget);
}

inline Trained train_context_alone(const ContextCase& c, Llama& model) {
  Trained trained;
  model.initialize(kSeed);
  Sgd optimizer(model.named_parameters(), {.momentum = 0.9});
  for (int64_t step = 0; step < c.steps; ++step) {
    optimizer.zero_grad();
    const at::Tensor loss = loss_alone(model, context_batch(c, step));
    loss.backward();
    trained.losses.push_back(loss.item<double>());
    trained.norms.push_back(clip_grad_norm_(model.named_parameters(), 0.5));
    optimizer.step(0.05);
  }
  const at::NoGradGuard no_grad;
  trained.evaluated = loss_alone(model, context_batch(c, 99)).item<double>();
  return trained;
}

inline Engine context_engine(const World& world, const ContextCase& c) {
  const LlamaConfig config = context_config(c);
  Model model = llama_model(config, {.dtype = c.dtype, .device = testkit::device()});
  model.fill = [config](const Parameters& parameters) { fill_llama(parameters, config, kSeed); };
  const Plan plan = train_plan(world.size(), c.dims, c.options.sizes);
  return compose(model, realize(plan, world),
                 {.batch = kContextRows,
                  .schedule = make_schedule(
                      {.kind = ScheduleKind::k1F1B, .pp = c.dims.pp, .microbatches = c.slices}, {}),
                  .device = testkit::device(),
                  .sequence = c.sequence,
                  .recompute = c.recompute,
                  .context = c.options,
                  .fsdp = c.fsdp});
}

inline Trained train_context(const ContextCase& c, Engine& engine) {
  Trained trained;
  Sgd optimizer(engine.parameters(), {.momentum = 0.9});
  const Span rows = engine.rows();
  const auto own = [&](const at::Tensor& all) {
    return all.defined() ? all.slice(0, rows.begin, rows.end) : all;
  };
  const auto here = [&](const at::Tensor& all) { return own(all).to(testkit::device()); };
  for (int64_t step = 0; step < c.steps; ++step) {
    const ContextBatch batch = context_batch(c, step);
    optimizer.zero_grad();
    const at::Tensor loss =
        engine.train_step(here(batch.inputs), here(batch.targets), 1, own(batch.documents));
    trained.losses.push_back(loss.item<double>());
    trained.norms.push_back(engine.grad_norm().item<double>());
    clip_grads_(engine.parameters(), trained.norms.back(), 0.5);
    optimizer.step(0.05);
  }
  const ContextBatch last = context_batch(c, 99);
  trained.evaluated =
      engine.evaluate(here(last.inputs), here(last.targets), own(last.documents)).item<double>();
  return trained;
}

inline void check_context(World& world, const ContextCase& c) {
  const double near = c.dtype == at::kDouble ? 1e-9 : 1e-4;
  Engine engine = context_engine(world, c);
  const Trained trained = train_context(c, engine);
  Llama alone(context_config(c), {.dtype = c.dtype, .device = testkit::device()});
  const Trained expected = train_context_alone(c, alone);
  RANK_EXPECT(are_close(trained.losses, expected.losses, near)) << text_of(c);
  // A gradient has passed through more products than a loss.
  const double near_norm = c.dtype == at::kDouble ? near : 10 * near;
  RANK_EXPECT(are_close(trained.norms, expected.norms, near_norm)) << text_of(c);
  RANK_EXPECT(are_close({trained.evaluated}, {expected.evaluated}, near)) << text_of(c);
  expect_same_parameters({}, engine.parameters(), alone, near);
}

}  // namespace tessera
