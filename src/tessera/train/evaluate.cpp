#include "tessera/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/check.h"
#include "tessera/checkpoint/load.h"
#include "tessera/data/documents.h"
#include "tessera/data/whole_rows.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama_units.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/model_stage.h"
#include "tessera/train/run_setup.h"
#include "tessera/train/texts.h"
#include "tessera/train/train_model.h"
#include "tessera/train/trainer.h"

namespace tessera {
namespace {

/// All tokens of the data, as batches for the engine.
class WholeBatches final : public BatchSource {
 public:
  WholeBatches(WholeRows rows, std::optional<int64_t> document_end)
      : rows_(std::move(rows)), document_end_(document_end) {}

  int64_t batch() const override { return rows_.options().batch; }
  BatchTensors rows(int64_t step, Span rows) const override {
    return to_tensors(rows_.rows(step, rows.begin, rows.end), document_end_);
  }
  const WholeRows& all() const { return rows_; }

 private:
  WholeRows rows_;
  std::optional<int64_t> document_end_;
};

WholeBatches whole_batches(const DataSection& data, const TokenData& tokens) {
  return {WholeRows(tokens, {.batch = data.batch, .seq = data.seq, .ignored = kIgnoredTarget}),
          data.documents ? std::optional(data.document_end) : std::nullopt};
}

int64_t count_targets(const WholeBatches& batches) {
  int64_t count = 0;
  for (int64_t i = 0; i < batches.all().batches(); ++i) {
    const at::Tensor targets = batches.rows(i, {0, batches.batch()}).targets;
    count += (targets != kIgnoredTarget).sum().item<int64_t>();
  }
  return count;
}

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(loss);
}

std::optional<double> Evaluation::bits_per_byte() const {
  if (!bytes || *bytes == 0) return std::nullopt;
  return loss * static_cast<double>(tokens) / std::numbers::ln2 / static_cast<double>(*bytes);
}

void check_evaluation(const TrainConfig& config) {
  check_device(config.train);
  const LlamaConfig shape = shape_of(config.model);
  check_shape(config, shape);
  stage_units(llama_model(shape), schedule_of(config).num_stages());
}

Evaluation evaluate(const TrainConfig& config, const std::string& checkpoint,
                    const std::function<void(double share)>& progress) {
  set_threads(config);
  World world = connect_ranks(config);
  const TokenData data = open_data(config);
  Evaluation result{.is_first_rank = world.rank() == GlobalRank{0}};
  if (result.is_first_rank && !config.data.documents) result.bytes = text_bytes(config, data);
  const WholeBatches batches = whole_batches(config.data, data);
  std::optional<Checkpoint> weights;
  if (!checkpoint.empty()) weights.emplace(checkpoint);
  TrainModel model =
      make_model(config, world, weights ? &*weights : nullptr, Targets::kSomeIgnored);
  const int64_t count = batches.all().batches();
  result.loss = mean_loss(model.engine, batches, count, [&](int64_t batch) {
    if (progress) progress(static_cast<double>(batch + 1) / static_cast<double>(count));
  });
  // Ends of packed documents do not count.
  result.tokens = config.data.documents ? count_targets(batches) : batches.all().targets();
  world.close();
  return result;
}

}  // namespace tessera
