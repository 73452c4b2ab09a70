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
  std::vector<std::string> paths{};  // Text files, folders of them, token files.
  std::vector<double> weights{};     // Sampling weight per path; empty: by size.
  std::string kind = "auto";         // Content of the files: auto, bytes, u16 or u32.
  std::string tokenizer{};  // The folder of the tokenizer.json that encodes texts; "": bytes.
  std::string cache{};      // The folder for the tokens of texts; "": beside the run directory.
  int64_t seq = 256;        // Tokens per row.
  int64_t batch = 8;        // Rows per step, over all ranks.
  bool shuffle = true;      // A new order each epoch; otherwise file order.
  int64_t seed = 0;         // Of the order of samples.
  double validation_share = 0.05;  // Fraction held out at the end of each source.
  bool documents = false;          // Rows are packed documents.
  int64_t document_end = 0;        // The last token of each document.

  friend bool operator==(const DataSection&, const DataSection&) = default;
};

/// [optim]: optimizer, learning rate, clipping.
struct OptimSection {
  std::string kind = "adamw";       // adamw or sgd.
  double lr = 1e-3;                 // At its peak.
  std::string schedule = "cosine";  // After the warm-up: constant, cosine, linear or wsd.
  int64_t warmup = 0;               // Steps.
  int64_t decay = 0;                // Steps; wsd only.
  double final = 0.1;               // Fraction of lr; unused by constant.
  double beta1 = 0.9;               // AdamW: decay rate of the mean gradient.
  double beta2 = 0.95;              // AdamW: decay rate of the mean squared gradient.
  double eps = 1e-8;                // AdamW: added to the square root of the mean squared gradient.
  double momentum = 0;              // sgd only.
  double weight_decay = 0.1;        // 0: none.
  bool decay_norms = true;          // Weight decay also for norms and biases.
  double clip = 1;                  // 0: no clipping.
  int64_t accumulate = 1;           // Slices per batch (gradient accumulation).
  std::string non_finite = "stop";  // After a non-finite step or a spike: stop, skip or rollback.
  double spike = 0;                 // Times the median; 0: a step is never a spike.
  int64_t spike_window = 100;       // Steps of the median.
  double ema_decay = 0;             // Of the average of the weights; 0: none.

  friend bool operator==(const OptimSection&, const OptimSection&) = default;
};

/// [train]: length and numerics of the run.
struct TrainSection {
  int64_t steps = 400;         // Optimizer steps of the whole run.
  std::string dtype = "fp32";  // Of the parameters: fp32, bf16, fp16 or fp64.
  std::string fp8 = "none";    // Products of linear layers in float8: none, rowwise or tensorwise.
  int64_t fp8_skip_first = 0;  // Blocks at the beginning whose products stay in bf16.
  int64_t fp8_skip_last = 0;   // Blocks at the end whose products stay in bf16.
  bool fp8_head = false;       // The product of the head, too.
  int64_t threads = 0;         // Per rank; 0: the host's cores / its ranks.
  int64_t seed = 0;            // Of the initial weights.
  std::string device = "cpu";  // cpu or cuda.
  int64_t validate_every = 0;  // Steps; 0: never.
  int64_t validate_batches = 8;             // At most; fewer if less data is held out.
  bool validate_ema = false;                // With the average of the weights.
  std::string init_from{};                  // A checkpoint with the initial weights; "": none.
  double expert_capacity_factor = 0;        // The most tokens of an expert / the mean; 0: no limit.
  std::string token_drop_policy = "probs";  // Which tokens a full expert keeps: probs or position.
  std::string balancing = "model";          // What the balancing loss of experts compares.
  double z_loss_coef = 0;                   // Of the routers' logits; 0: none.
  int64_t check_replicas = 0;               // Steps between two comparisons; 0: none.
  bool deterministic = false;               // The same bits in every run, or an error.
  bool cuda_graphs = false;                 // Record a step on a GPU, and repeat it.
  int64_t sync_every = 1;                   // Steps that a GPU gets before the host waits for it.

  friend bool operator==(const TrainSection&, const TrainSection&) = default;
};

/// [run]: the run directory and what is written to it.
struct RunSection {
  std::string dir{};           // "": the first free of runs/1, runs/2, …
  bool overwrite = false;      // Replace the run in the run directory.
  bool resume = false;         // Continue the run in the run directory, from its newest checkpoint.
  bool resume_anyway = false;  // Resume even if keys have changed that change the curve.
  int64_t save_every = 0;      // Steps between two checkpoints; 0: none.
  int64_t keep_last = 2;       // Checkpoints; 0: all.
  bool async_save = true;      // Write checkpoints while training continues.
  bool save = true;            // Write the weights at the end.
  int64_t record_every = 0;    // Record actions every so many steps; 0: never.
  int64_t max_restarts = 0;    // After failures, if this program starts the ranks itself.
  int64_t timeout = 1800;      // Seconds that ranks wait for each other.
  bool csv = false;            // metrics.csv beside metrics.jsonl.
  bool tensorboard = false;    // Event files of TensorBoard.
  std::string trace_steps{};   // "A-B": the steps to trace; "": none.
  int64_t sample = 0;          // Tokens of the text that the run ends with; 0: none.

  friend bool operator==(const RunSection&, const RunSection&) = default;
};

/// [parallel]: the layout of the ranks and what they exchange.
struct ParallelSection {
  int64_t nproc = 1;  // Ranks in all: dp · tp · cp · pp.
  int64_t dp = 1;     // Data parallelism: ranks that split each batch.
  int64_t tp = 1;     // Tensor parallelism: ranks that share each layer.
  int64_t cp = 1;     // Context parallelism: ranks that split each sequence.
  int64_t pp = 1;     // Pipeline parallelism: ranks per pipeline.
  int64_t ep = 1;     // Expert parallelism: ranks that divide the experts; out of dp · cp · tp.
  int64_t etp = 1;    // Ranks that share each expert; out of dp · cp · tp.
  std::string dispatch = "all_to_all";  // How tokens reach their experts: all_to_all or all_gather.
  bool sp = true;                       // Sequence parallelism; only with tp.
  bool tp_async = false;                // Products of tp in pieces beside their communication.
  std::string cp_type = "ring";         // See context_parallel_types().
  std::string cp_layout = "head-tail";  // See context_layouts().
  std::vector<double> cp_sizes{};       // Whole numbers, of cp_type hierarchical.
  int64_t cp_head_stride = 1;           // Key-value heads per gather, of cp_type all-gather.
  std::string dp_type = "ddp";          // See data_parallel_types().
  int64_t dp_replicate = 1;             // Replicas of the shards, of dp_type hsdp and zero1.
  /// Which units free their parameters after the forward pass, of dp_type fsdp and hsdp: always,
  /// all_but_last, never or smaller (they stay sharded over `reshard_size` ranks).
  std::string reshard = "all_but_last";
  int64_t reshard_size = 1;            // With reshard "smaller".
  std::string reduce = "once";         // Sharded gradients: reduced once per step, or each slice.
  bool offload = false;                // Keep shards, gradients and optimizer state in CPU memory.
  std::string compute_dtype = "same";  // Of gathered parameters and of compute; same: train.dtype.
  std::string reduce_dtype = "same";   // In which gradients are summed; same: of compute.
  std::string recompute = "none";      // Activation checkpointing: none, selective or full.
  std::string schedule = "1f1b";       // Of the pipeline: a kind or a CSV file.
  int64_t microbatches = 1;            // Per step and replica; 1 without a pipeline.

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
  ModelSection model{};        // Which model is trained.
  DataSection data{};          // The texts or tokens, and their order.
  OptimSection optim{};        // Optimizer, learning rate, clipping.
  TrainSection train{};        // Length and numerics of the run.
  RunSection run{};            // The run directory and what is written to it.
  ParallelSection parallel{};  // The layout of the ranks and what they exchange.

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
