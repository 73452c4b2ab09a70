#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/config/train_config.h"
#include "tessera/format/llama_size.h"

namespace tessera {
namespace {

constexpr const char* kBytes = "the bytes of the model";

int64_t times(int64_t a, int64_t b) {
  return checked_multiply(a, b, kBytes);
}

/// Bytes per element.
struct Widths {
  int64_t weight = 4;    // And its gradient.
  int64_t gathered = 4;  // The same while it is gathered.
  int64_t state = 0;     // The optimizer's, with float32 copies of 16-bit weights.
};

Widths widths_of(const TrainConfig& config) {
  const int64_t weight = element_bytes(config.train.dtype);
  const std::string& compute = config.parallel.compute_dtype;
  const int64_t exact = std::max<int64_t>(weight, 4);
  const OptimSection& optim = config.optim;
  const int64_t moments = optim.kind == "adamw" ? 2 : optim.momentum > 0 ? 1 : 0;
  return {.weight = weight,
          .gathered = compute == "same" ? weight : element_bytes(compute),
          .state = moments * exact + (weight < exact ? exact : 0)};
}

// Elements of a model of which ep and etp divide the experts.
int64_t held(const LlamaConfig& shape, const ParallelDims& dims) {
  const int64_t experts = expert_parameter_count(shape);
  return parameter_count(shape) - experts + experts / (dims.ep * dims.etp);
}

/// Elements per rank, beside its own part of the model.
struct Extra {
  int64_t weights = 0;
  int64_t gradients = 0;
};

// What a rank with shards holds at the peak of a step.
Extra gathered(const TrainConfig& config, LlamaConfig shape, int64_t stage) {
  const ParallelDims dims = dims_of(config.parallel);
  shape.num_hidden_layers = 2;
  const int64_t two_blocks = held(shape, dims);
  shape.num_hidden_layers = 1;
  const int64_t block = two_blocks - held(shape, dims);
  const int64_t vocabulary = times(shape.vocab_size, shape.hidden_size);
  const int64_t unit = std::min(stage, std::max(block, vocabulary));
  const ParallelSection& parallel = config.parallel;
  // A pipeline gathers whole stages, and its micro-batches accumulate whole gradients.
  const bool keeps_weights =
      parallel.pp > 1 || parallel.dp_type == "zero1" || parallel.reshard == "never";
  const bool keeps_gradients =
      parallel.pp > 1 || (config.optim.accumulate > 1 && parallel.reduce != "each");
  const int64_t kept = parallel.reshard == "smaller" ? stage / parallel.reshard_size : 0;
  // The unit that computes, and the next one.
  return {.weights = keeps_weights ? stage : std::min(stage, block + unit + kept),
          .gradients = keeps_gradients ? stage : unit};
}

int64_t bytes_per_rank(const TrainConfig& config, const LlamaConfig& shape) {
  const ParallelDims dims = dims_of(config.parallel);
  const Widths widths = widths_of(config);
  // Some rank of a pipeline holds at least this share.
  const int64_t stage = held(shape, dims) / dims.pp;
  const int64_t experts = expert_parameter_count(shape);
  const int64_t dense = parameter_count(shape) - experts;
  // Shards of experts are divided over ranks of tp and cp as well.
  const int64_t divided =
      std::max(dims.ep * dims.etp, dims.shards() > 1 ? dims.shards() * dims.tp : 1);
  const int64_t elements = (dense / dims.shards() + experts / divided) / dims.pp;
  const int64_t own = times(elements, 2 * widths.weight + widths.state);
  if (dims.shards() == 1) return own;
  const Extra extra = gathered(config, shape, stage);
  const int64_t units = times(checked_add(extra.weights, extra.gradients, kBytes), widths.gathered);
  return checked_add(own, units, kBytes);
}

std::string remedies(const TrainConfig& config) {
  const ParallelSection& parallel = config.parallel;
  const bool keeps_weights = parallel.dp_type == "ddp" || parallel.dp_type == "zero1";
  std::vector<std::string> ways{"a smaller model"};
  if (!config.train.dtype.ends_with("16")) ways.emplace_back("--dtype bf16");
  if (keeps_weights) ways.emplace_back("--dp-type fsdp on more ranks (--dp)");
  if (!keeps_weights && parallel.reshard == "never") {
    ways.emplace_back("--parallel.reshard all_but_last");
  }
  if (parallel.dp_type == "hsdp") ways.emplace_back("a smaller --dp-replicate");
  ways.emplace_back(keeps_weights ? "more --pp" : "more ranks (--dp or --pp)");
  return join(ways, ", ");
}

}  // namespace

int64_t element_bytes(const std::string& dtype) {
  return dtype.ends_with("16") ? 2 : dtype == "fp64" ? 8 : 4;
}

void check_memory(const TrainConfig& config, const LlamaConfig& shape, int64_t memory) {
  if (config.train.device != "cpu") return;
  const int64_t needed = bytes_per_rank(config, shape);
  TSR_CHECK(needed <= memory, "a model of ", with_thousands(parameter_count(shape)),
            " parameters in ", config.train.dtype, " with --dp-type ", config.parallel.dp_type,
            " needs ", with_thousands(needed),
            " bytes per rank for weights, gradients and optimizer state; this machine has ",
            with_thousands(memory), ". Choose from: ", remedies(config));
}

}  // namespace tessera
