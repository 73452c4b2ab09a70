#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"
#include "tessera/plan/context_parallel.h"
#include "tessera/plan/train_plan.h"
#include "tessera/topology/box.h"

/// The settings of a training run. fields.h lists all keys, docs/configuration.md documents them.
/// Strings with a fixed set of choices are checked when they are assigned.
namespace tessera TSR_API {

/// [model]: which model is trained.
struct ModelSection {
  std::string preset = "tiny";  // "" with a path.
  std::string path{};           // A Hugging Face folder with shape and weights; "": use the preset.
  LlamaConfig shape{};          // The preset's, changed by keys; unused with a path.

  friend bool operator==(const ModelSection&, const ModelSection&) = default;
};

/// [data]: the texts or tokens, and their order.
struct DataSection {
  std::vector<std::string> paths{};
  std::vector<double> weights{};
  std::string kind = "auto";
  std::string tokenizer{};  // The folder of tokenizer.json, by which texts are encoded; "": bytes.
  std::string cache{};      // The folder for the tokens of texts; "": beside the run directory.
  int64_t seq = 256;
  int64_t batch = 8;
  bool shuffle = true;
  int64_t seed = 0;
  double validation_share = 0.05;
  bool documents = false;    // Rows are packed documents.
  int64_t document_end = 0;  // The last token of each document.

  friend bool operator==(const DataSection&, const DataSection&) = default;
};

/// [optim]: optimizer, learning rate, clipping.
struct OptimSection {
  std::string kind = "adamw";
  double lr = 1e-3;
  std::string schedule = "cosine";
  int64_t warmup = 0;  // Steps.
  int64_t decay = 0;   // Steps; wsd only.
  double final = 0.1;  // Fraction of lr; unused by constant.
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0;  // sgd only.
  double weight_decay = 0.1;
  bool decay_norms = true;  // Weight decay also for norms and biases.
  double clip = 1;          // 0: no clipping.
  int64_t accumulate = 1;   // Slices per batch (gradient accumulation).
  std::string non_finite = "stop";
  double spike = 0;            // Times the median; 0: a step is never a spike.
  int64_t spike_window = 100;  // Steps of the median.
  double ema_decay = 0;        // Of the average of the weights; 0: none.

  friend bool operator==(const OptimSection&, const OptimSection&) = default;
};

/// [train]: length and numerics of the run.
struct TrainSection {
  int64_t steps = 400;
  std::string dtype = "fp32";
  std::string fp8 = "none";    // Products of linear layers in float8: none, rowwise or tensorwise.
  int64_t fp8_skip_first = 0;  // Blocks whose products stay in bf16.
  int64_t fp8_skip_last = 0;
  bool fp8_head = false;  // The product of the head, too.
  int64_t threads = 0;    // Per rank; 0: the host's cores / its ranks.
  int64_t seed = 0;       // Of the initial weights.
  std::string device = "cpu";
  int64_t validate_every = 0;         // Steps; 0: never.
  int64_t validate_batches = 8;       // At most; fewer if less data is held out.
  bool validate_ema = false;          // With the average of the weights.
  std::string init_from{};            // A checkpoint with the initial weights; "": none.
  double expert_capacity_factor = 0;  // The most tokens of an expert / the mean; 0: no limit.
  std::string token_drop_policy = "probs";
  std::string balancing = "model";  // What the balancing loss of experts compares.
  double z_loss_coef = 0;           // Of the routers' logits; 0: none.
  int64_t check_replicas = 0;       // Steps between two comparisons; 0: none.
  bool deterministic = false;

  friend bool operator==(const TrainSection&, const TrainSection&) = default;
};

/// [run]: the run directory and what is written to it.
struct RunSection {
  std::string dir{};  // "": the first free of runs/1, runs/2, …
  bool overwrite = false;
  bool resume = false;
  bool resume_anyway = false;
  int64_t save_every = 0;  // Steps between two checkpoints; 0: none.
  int64_t keep_last = 2;   // Checkpoints; 0: all.
  bool async_save = true;
  bool save = true;           // Write the weights at the end.
  int64_t record_every = 0;   // Record actions every so many steps; 0: never.
  int64_t max_restarts = 0;   // After failures, if this program starts the ranks itself.
  int64_t timeout = 1800;     // Seconds that ranks wait for each other.
  bool csv = false;           // metrics.csv beside metrics.jsonl.
  bool tensorboard = false;   // Event files of TensorBoard.
  std::string trace_steps{};  // "A-B": the steps to trace; "": none.
  int64_t sample = 0;         // Tokens of the text that the run ends with; 0: none.

  friend bool operator==(const RunSection&, const RunSection&) = default;
};

/// [parallel]: the layout of the ranks and what they exchange.
struct ParallelSection {
  int64_t nproc = 1;
  int64_t dp = 1;
  int64_t tp = 1;
  int64_t cp = 1;
  int64_t pp = 1;
  int64_t ep = 1;
  int64_t etp = 1;
  std::string dispatch = "all_to_all";
  bool sp = true;
  bool tp_async = false;
  std::string cp_type = "ring";
  std::string cp_layout = "head-tail";
  std::vector<double> cp_sizes{};  // Whole numbers, of cp_type hierarchical.
  int64_t cp_head_stride = 1;
  std::string dp_type = "ddp";
  int64_t dp_replicate = 1;
  std::string reshard = "all_but_last";
  int64_t reshard_size = 1;  // With reshard "smaller".
  std::string reduce = "once";
  bool offload = false;
  std::string compute_dtype = "same";
  std::string reduce_dtype = "same";
  std::string recompute = "none";
  std::string schedule = "1f1b";
  int64_t microbatches = 1;

  friend bool operator==(const ParallelSection&, const ParallelSection&) = default;
};

/// The degrees of the section; ConfigError if they do not fit together.
ParallelDims dims_of(const ParallelSection& parallel);

/// How the section's cp ranks share a sequence. ConfigError if a size is no whole number.
ContextParallelOptions context_of(const ParallelSection& parallel);

/// The steps of "10-12" or "7", the last one included. ConfigError if the text names none.
Span parse_steps(std::string_view text);

/// Every setting of a training run; docs/configuration.md lists them.
struct TrainConfig {
  ModelSection model{};
  DataSection data{};
  OptimSection optim{};
  TrainSection train{};
  RunSection run{};
  ParallelSection parallel{};

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

/// The folder for the tokens of a run's texts.
std::string token_cache(const TrainConfig& config);

/// ConfigError if values contradict each other.
void check(const TrainConfig& config);

/// The same run on `ranks` ranks, because nodes are lost: with fewer replicas, and more slices per
/// batch, so that the global batch and the rows per slice stay. ConfigError if the other degrees of
/// parallelism do not fit.
TrainConfig with_fewer_replicas(TrainConfig config, int64_t ranks);

/// ConfigError if the model does not fit the parallel degrees and the data. check() does this for a
/// model that is not from a folder.
void check_shape(const TrainConfig& config, const LlamaConfig& shape);

/// Bytes per element of a dtype of the configuration: 4 of fp32.
int64_t element_bytes(const std::string& dtype);

/// ConfigError if the weights, gradients and optimizer state of one rank need more than `memory`
/// bytes, the memory of its host. This is a lower bound: activations come on top, and ranks of one
/// host share its memory. GPU memory is not checked.
void check_memory(const TrainConfig& config, const LlamaConfig& shape, int64_t memory);

/// A TOML file with every key and its help; parsing it gives the same config.
std::string to_toml(const TrainConfig& config);

}  // namespace tessera
