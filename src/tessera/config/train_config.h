#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"
#include "tessera/plan/train_plan.h"

/// What a training run is told. fields.h has the list of all keys, docs/configuration.md
/// shows it. Texts that name one of several things are checked to be one of them.
namespace tessera TSR_API {

struct ModelSection {
  std::string preset = "tiny";  // Or
  std::string path{};           // a Hugging Face folder, which brings its shape and weights.
  LlamaConfig shape{};          // Of the preset, changed by keys; meaningless with a path.

  friend bool operator==(const ModelSection&, const ModelSection&) = default;
};

struct DataSection {
  std::vector<std::string> paths{};
  std::vector<double> weights{};
  std::string kind = "auto";
  int64_t seq = 256;
  int64_t batch = 8;
  bool shuffle = true;
  int64_t seed = 0;
  double validation_share = 0.05;

  friend bool operator==(const DataSection&, const DataSection&) = default;
};

struct OptimSection {
  std::string kind = "adamw";
  double lr = 1e-3;
  std::string schedule = "cosine";
  int64_t warmup = 0;  // Steps.
  int64_t decay = 0;   // Steps; for wsd alone.
  double final = 0.1;  // Of lr; not for constant.
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double momentum = 0;  // For sgd alone.
  double weight_decay = 0.1;
  bool decay_norms = true;  // Weight decay of norms and biases, too.
  double clip = 1;          // 0: none.
  int64_t accumulate = 1;   // Slices of a batch, one after the other.

  friend bool operator==(const OptimSection&, const OptimSection&) = default;
};

struct TrainSection {
  int64_t steps = 400;
  std::string dtype = "fp32";
  int64_t threads = 0;  // 0: all cores.
  int64_t seed = 0;     // Of the initial weights.
  std::string device = "cpu";
  int64_t validate_every = 0;    // Steps; 0: never.
  int64_t validate_batches = 8;  // At most; what the held-out part fills if that is less.

  friend bool operator==(const TrainSection&, const TrainSection&) = default;
};

struct RunSection {
  std::string dir{};  // "": the next that is free.
  bool overwrite = false;
  bool resume = false;
  bool save = true;          // The weights, at the end.
  int64_t record_every = 0;  // Steps whose pipeline actions are timed; 0: none.

  friend bool operator==(const RunSection&, const RunSection&) = default;
};

struct ParallelSection {
  int64_t nproc = 1;
  int64_t dp = 1;
  int64_t tp = 1;
  int64_t cp = 1;
  int64_t pp = 1;
  int64_t ep = 1;
  int64_t etp = 1;
  std::string dp_type = "ddp";
  int64_t dp_replicate = 1;
  std::string reshard = "all_but_last";
  std::string recompute = "none";
  std::string schedule = "1f1b";
  int64_t microbatches = 1;

  friend bool operator==(const ParallelSection&, const ParallelSection&) = default;
};

/// The degrees that these words mean; ConfigError if they do not fit together.
ParallelDims dims_of(const ParallelSection& parallel);

struct TrainConfig {
  ModelSection model{};
  DataSection data{};
  OptimSection optim{};
  TrainSection train{};
  RunSection run{};
  ParallelSection parallel{};

  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

/// ConfigError where values do not go together, whoever would run it.
void check(const TrainConfig& config);

/// ConfigError for what no strategy of ours does yet.
void check_supported(const TrainConfig& config);

/// ConfigError where the weights and gradients of one rank alone need more than the `memory` bytes
/// of its host; a GPU's memory is not looked at.
void check_memory(const TrainConfig& config, const LlamaConfig& shape, int64_t memory);

/// A TOML file with every key and what it is for; read again it gives the same config.
std::string to_toml(const TrainConfig& config);

}  // namespace tessera
