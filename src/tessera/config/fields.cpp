// The one list of all keys.
#include "tessera/config/fields.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/data/token_source.h"
#include "tessera/format/llama_presets.h"

namespace tessera {
namespace {

using Names = std::vector<std::string>;
using Fields = std::vector<ConfigField>;
using C = TrainConfig;

// at<&C::optim, &OptimSection::lr>(config) is &config.optim.lr.
template <auto... Members>
ConfigTarget at(TrainConfig& config) {
  return &(config.*....*Members);
}

template <auto Member>
constexpr auto kShape = at<&C::model, &ModelSection::shape, Member>;

constexpr double kMostSteps = 1e12;     // Ten times this fits an int64_t.
constexpr double kMostSize = 1U << 31;  // Products of two sizes fit an int64_t.
constexpr double kMostThreads = 1024;
constexpr double kMostRanks = 1 << 16;  // Products of four fit an int64_t.

Fields model_fields() {
  return {
      {.key = "preset",
       .target = at<&C::model, &ModelSection::preset>,
       .help = "a named model shape; other model keys override it",
       .flag = "--preset",
       .choices = llama_preset_names},
      {.key = "path",
       .target = at<&C::model, &ModelSection::path>,
       .help = "a Hugging Face folder, instead of a preset and other model keys",
       .flag = "--model"},
      {.key = "vocab_size",
       .target = kShape<&LlamaConfig::vocab_size>,
       .help = "vocabulary size",
       .least = 1},
      {.key = "hidden_size",
       .target = kShape<&LlamaConfig::hidden_size>,
       .help = "width of the hidden states",
       .least = 1},
      {.key = "intermediate_size",
       .target = kShape<&LlamaConfig::intermediate_size>,
       .help = "width inside the feed-forward layers",
       .least = 1},
      {.key = "num_hidden_layers",
       .target = kShape<&LlamaConfig::num_hidden_layers>,
       .help = "number of transformer blocks",
       .least = 1},
      {.key = "num_attention_heads",
       .target = kShape<&LlamaConfig::num_attention_heads>,
       .help = "attention heads per block",
       .least = 1},
      {.key = "num_key_value_heads",
       .target = kShape<&LlamaConfig::num_key_value_heads>,
       .help = "key-value heads per block; groups of attention heads share one",
       .least = 1,
       .otherwise = "the preset's; num_attention_heads if that is given"},
      {.key = "head_dim",
       .target = kShape<&LlamaConfig::head_dim>,
       .help = "width of a head",
       .least = 1,
       .otherwise = "hidden_size / num_attention_heads"},
      {.key = "max_position_embeddings",
       .target = kShape<&LlamaConfig::max_position_embeddings>,
       .help = "longest sequence, as config.json states it; not enforced",
       .least = 1},
      {.key = "rms_norm_eps",
       .target = kShape<&LlamaConfig::rms_norm_eps>,
       .help = "added to the mean square in RMSNorm",
       .least = 0},
      {.key = "rope_theta",
       .target = kShape<&LlamaConfig::rope_theta>,
       .help = "base of the rotary embedding",
       .least = 1},
      {.key = "tie_word_embeddings",
       .target = kShape<&LlamaConfig::tie_word_embeddings>,
       .help = "whether the output head shares the weights of the embedding"},
      {.key = "attention_bias",
       .target = kShape<&LlamaConfig::attention_bias>,
       .help = "whether the linear layers of the attention have a bias"},
      {.key = "mlp_bias",
       .target = kShape<&LlamaConfig::mlp_bias>,
       .help = "whether the linear layers of the feed-forward part have a bias"},
      {.key = "initializer_range",
       .target = kShape<&LlamaConfig::initializer_range>,
       .help = "standard deviation of the initial weights",
       .least = 0},
      {.key = "sliding_window",
       .target = kShape<&LlamaConfig::sliding_window>,
       .help = "positions that a token attends to, itself among them; 0: all before it",
       .least = 0},
      {.key = "num_experts",
       .target = kShape<&LlamaConfig::num_experts>,
       .help = "experts per layer; 0: a dense model",
       .least = 0},
      {.key = "num_experts_per_tok",
       .target = kShape<&LlamaConfig::num_experts_per_tok>,
       .help = "experts that each token visits",
       .least = 1},
      {.key = "moe_intermediate_size",
       .target = kShape<&LlamaConfig::moe_intermediate_size>,
       .help = "width of an expert; 0: intermediate_size",
       .least = 0},
      {.key = "norm_topk_prob",
       .target = kShape<&LlamaConfig::norm_topk_prob>,
       .help = "whether the weights of a token's experts add up to 1"},
      {.key = "router_aux_loss_coef",
       .target = kShape<&LlamaConfig::router_aux_loss_coef>,
       .help = "coefficient of the load-balancing loss",
       .least = 0},
  };
}

Fields data_fields() {
  return {
      {.key = "paths",
       .target = at<&C::data, &DataSection::paths>,
       .help = "text files, folders of text files, token files",
       .flag = "--data",
       .otherwise = "Tessera's own sources and documents"},
      {.key = "weights",
       .target = at<&C::data, &DataSection::weights>,
       .help = "sampling weight per path; empty: by size"},
      {.key = "kind",
       .target = at<&C::data, &DataSection::kind>,
       .help = "content of the files; auto: .npy states its type, .bin is u16, others are bytes",
       .choices = token_kind_names},
      {.key = "seq",
       .target = at<&C::data, &DataSection::seq>,
       .help = "sequence length: tokens per row",
       .flag = "--seq",
       .least = 1,
       .most = kMostSize},
      {.key = "batch",
       .target = at<&C::data, &DataSection::batch>,
       .help = "rows per step, over all ranks",
       .flag = "--batch",
       .least = 1,
       .most = kMostSize},
      {.key = "shuffle",
       .target = at<&C::data, &DataSection::shuffle>,
       .help = "a new order each epoch; otherwise file order",
       .off_flag = "--no-shuffle"},
      {.key = "seed",
       .target = at<&C::data, &DataSection::seed>,
       .help = "seed of the order of samples",
       .least = 0},
      {.key = "validation_share",
       .target = at<&C::data, &DataSection::validation_share>,
       .help = "fraction at the end of each source that is held out for validation",
       .least = 0,
       .most = 0.9,
       .otherwise = "0.05; 0 if train.validate_every is 0"},
  };
}

Fields optim_fields() {
  return {
      {.key = "kind",
       .target = at<&C::optim, &OptimSection::kind>,
       .help = "the optimizer",
       .choices = [] { return Names{"adamw", "sgd"}; }},
      {.key = "lr",
       .target = at<&C::optim, &OptimSection::lr>,
       .help = "peak learning rate",
       .flag = "--lr",
       .least = 0},
      {.key = "schedule",
       .target = at<&C::optim, &OptimSection::schedule>,
       .help = "learning rate after the warm-up",
       .choices = [] { return Names{"constant", "cosine", "wsd"}; },
       .otherwise = "cosine; constant with model.path"},
      {.key = "warmup",
       .target = at<&C::optim, &OptimSection::warmup>,
       .help = "warm-up steps",
       .least = 0,
       .most = kMostSteps,
       .otherwise = "steps / 10, at most 50; 0 with model.path"},
      {.key = "decay",
       .target = at<&C::optim, &OptimSection::decay>,
       .help = "steps at the end of the run over which wsd decays the learning rate",
       .least = 0,
       .most = kMostSteps,
       .otherwise = "0; steps / 5 with wsd"},
      {.key = "final",
       .target = at<&C::optim, &OptimSection::final>,
       .help = "final learning rate as a fraction of lr; constant does not use it",
       .least = 0,
       .most = 1},
      {.key = "beta1",
       .target = at<&C::optim, &OptimSection::beta1>,
       .help = "AdamW: decay rate of the mean gradient",
       .least = 0,
       .most = 1},
      {.key = "beta2",
       .target = at<&C::optim, &OptimSection::beta2>,
       .help = "AdamW: decay rate of the mean squared gradient",
       .least = 0,
       .most = 1},
      {.key = "eps",
       .target = at<&C::optim, &OptimSection::eps>,
       .help = "AdamW: added to the square root of the mean squared gradient",
       .least = 0},
      {.key = "momentum",
       .target = at<&C::optim, &OptimSection::momentum>,
       .help = "SGD: momentum",
       .least = 0},
      {.key = "weight_decay",
       .target = at<&C::optim, &OptimSection::weight_decay>,
       .help = "weight decay",
       .flag = "--weight-decay",
       .least = 0},
      {.key = "decay_norms",
       .target = at<&C::optim, &OptimSection::decay_norms>,
       .help = "weight decay of norms and biases, too"},
      {.key = "clip",
       .target = at<&C::optim, &OptimSection::clip>,
       .help = "largest gradient norm; 0: no clipping",
       .flag = "--clip",
       .off_flag = "--no-clip",
       .least = 0,
       .otherwise = "1; 0 with model.path"},
      {.key = "accumulate",
       .target = at<&C::optim, &OptimSection::accumulate>,
       .help = "gradient accumulation: slices per batch, computed one after the other",
       .least = 1,
       .most = kMostSize},
      {.key = "non_finite",
       .target = at<&C::optim, &OptimSection::non_finite>,
       .help = "a step with a non-finite loss or gradient: stop the run or skip it; fp16 skips",
       .choices = [] { return Names{"stop", "skip"}; }},
  };
}

Fields train_fields() {
  return {
      {.key = "steps",
       .target = at<&C::train, &TrainSection::steps>,
       .help = "optimizer steps",
       .flag = "--steps",
       .least = 1,
       .most = kMostSteps},
      {.key = "dtype",
       .target = at<&C::train, &TrainSection::dtype>,
       .help = "dtype of the parameters",
       .flag = "--dtype",
       .choices = [] { return Names{"fp32", "bf16", "fp16", "fp64"}; }},
      {.key = "threads",
       .target = at<&C::train, &TrainSection::threads>,
       .help = "CPU threads per rank; 0: the cores of the host, divided by its ranks",
       .flag = "--threads",
       .least = 0,
       .most = kMostThreads},
      {.key = "seed",
       .target = at<&C::train, &TrainSection::seed>,
       .help = "seed of the initial weights",
       .least = 0},
      {.key = "device",
       .target = at<&C::train, &TrainSection::device>,
       .help = "device to train on",
       .flag = "--device",
       .choices = [] { return Names{"cpu", "cuda"}; }},
      {.key = "validate_every",
       .target = at<&C::train, &TrainSection::validate_every>,
       .help = "steps between two validations; 0: never",
       .least = 0,
       .most = kMostSteps,
       .otherwise = "steps / 10; 0 with model.path or without held-out data"},
      {.key = "validate_batches",
       .target = at<&C::train, &TrainSection::validate_batches>,
       .help = "largest number of batches per validation",
       .least = 1,
       .most = kMostSteps},
  };
}

Fields run_fields() {
  return {
      {.key = "dir",
       .target = at<&C::run, &RunSection::dir>,
       .help = "run directory, for everything that the run writes",
       .flag = "--run-dir",
       .otherwise = "\"\": the first of runs/1, runs/2, … that is free"},
      {.key = "overwrite",
       .target = at<&C::run, &RunSection::overwrite>,
       .help = "replace the run in the run directory",
       .flag = "--overwrite"},
      {.key = "resume",
       .target = at<&C::run, &RunSection::resume>,
       .help = "resume the run in the run directory; not available yet: refused unless it is empty",
       .flag = "--resume"},
      {.key = "save",
       .target = at<&C::run, &RunSection::save>,
       .help = "write the weights at the end of the run",
       .otherwise = "true; false with model.path"},
      {.key = "record_every",
       .target = at<&C::run, &RunSection::record_every>,
       .help =
           "steps between two steps whose pipeline actions and sharded units are recorded; 0: none",
       .least = 0,
       .most = kMostSteps,
       .otherwise = "steps / 4 with a pipeline; 0 with model.path"},
  };
}

Fields parallel_fields() {
  return {
      {.key = "nproc",
       .target = at<&C::parallel, &ParallelSection::nproc>,
       .help = "number of ranks",
       .flag = "--nproc",
       .least = 1,
       .most = kMostRanks,
       .otherwise = "dp · tp · cp · pp"},
      {.key = "dp",
       .target = at<&C::parallel, &ParallelSection::dp>,
       .help = "data parallelism: number of replicas",
       .flag = "--dp",
       .least = 1,
       .most = kMostRanks,
       .otherwise = "nproc / (tp · cp · pp), or 1; 2 without model.path and parallel keys"},
      {.key = "tp",
       .target = at<&C::parallel, &ParallelSection::tp>,
       .help = "tensor parallelism: ranks that share each layer",
       .flag = "--tp",
       .least = 1,
       .most = kMostRanks},
      {.key = "cp",
       .target = at<&C::parallel, &ParallelSection::cp>,
       .help = "context parallelism; not available yet: refused above 1",
       .flag = "--cp",
       .least = 1,
       .most = kMostRanks},
      {.key = "pp",
       .target = at<&C::parallel, &ParallelSection::pp>,
       .help = "pipeline parallelism: ranks per pipeline",
       .flag = "--pp",
       .least = 1,
       .most = kMostRanks,
       .otherwise = "1; 2 without model.path and parallel keys"},
      {.key = "ep",
       .target = at<&C::parallel, &ParallelSection::ep>,
       .help = "expert parallelism: ranks that divide the experts; out of dp · cp · tp",
       .flag = "--ep",
       .least = 1,
       .most = kMostRanks},
      {.key = "etp",
       .target = at<&C::parallel, &ParallelSection::etp>,
       .help = "ranks that share each expert; out of dp · cp · tp",
       .flag = "--etp",
       .least = 1,
       .most = kMostRanks},
      {.key = "dispatch",
       .target = at<&C::parallel, &ParallelSection::dispatch>,
       .help = "how tokens reach their experts; all_gather sends less if ep is below "
               "num_experts_per_tok",
       .choices = [] { return Names{"all_to_all", "all_gather"}; }},
      {.key = "sp",
       .target = at<&C::parallel, &ParallelSection::sp>,
       .help = "sequence parallelism: with tp, ranks share the positions between layers",
       .off_flag = "--no-sp"},
      {.key = "tp_async",
       .target = at<&C::parallel, &ParallelSection::tp_async>,
       .help = "products of tensor parallelism run in pieces beside their communication",
       .flag = "--tp-async"},
      {.key = "dp_type",
       .target = at<&C::parallel, &ParallelSection::dp_type>,
       .help = "ddp: replicas; fsdp: shards; hsdp: replicas of shards; zero1: sharded optimizer",
       .flag = "--dp-type",
       .choices = data_parallel_types},
      {.key = "dp_replicate",
       .target = at<&C::parallel, &ParallelSection::dp_replicate>,
       .help = "replicas of the shards of hsdp and zero1",
       .flag = "--dp-replicate",
       .least = 1,
       .most = kMostRanks},
      {.key = "reshard",
       .target = at<&C::parallel, &ParallelSection::reshard>,
       .help = "fsdp and hsdp: which units free their parameters after the forward pass; smaller: "
               "they stay sharded over reshard_size ranks",
       .choices = [] { return Names{"always", "all_but_last", "never", "smaller"}; }},
      {.key = "reshard_size",
       .target = at<&C::parallel, &ParallelSection::reshard_size>,
       .help = "with reshard smaller: ranks; a divisor of the number of shards",
       .least = 1,
       .most = kMostRanks},
      {.key = "reduce",
       .target = at<&C::parallel, &ParallelSection::reduce>,
       .help = "sharded gradients: once per step, or each slice of optim.accumulate (less memory)",
       .choices = [] { return Names{"once", "each"}; }},
      {.key = "offload",
       .target = at<&C::parallel, &ParallelSection::offload>,
       .help = "keep shards, their gradients and the optimizer's state in CPU memory"},
      {.key = "compute_dtype",
       .target = at<&C::parallel, &ParallelSection::compute_dtype>,
       .help = "sharded parameters: dtype of compute; the shards keep train.dtype",
       .choices = [] { return Names{"same", "fp32", "bf16", "fp16", "fp64"}; }},
      {.key = "reduce_dtype",
       .target = at<&C::parallel, &ParallelSection::reduce_dtype>,
       .help = "dtype in which gradients are summed over ranks; same: that of compute",
       .choices = [] { return Names{"same", "fp32", "bf16", "fp16", "fp64"}; }},
      {.key = "recompute",
       .target = at<&C::parallel, &ParallelSection::recompute>,
       .help = "activation checkpointing; selective keeps products and attention, full only inputs",
       .flag = "--recompute",
       .choices = [] { return Names{"none", "selective", "full"}; }},
      {.key = "schedule",
       .target = at<&C::parallel, &ParallelSection::schedule>,
       .help = "pipeline schedule: a kind or a CSV file",
       .flag = "--schedule"},
      {.key = "microbatches",
       .target = at<&C::parallel, &ParallelSection::microbatches>,
       .help = "micro-batches per step and replica",
       .flag = "--microbatches",
       .least = 1,
       .most = kMostSize,
       .otherwise = "2 · pp with a pipeline"},
  };
}

Fields all_fields() {
  const std::initializer_list<std::pair<std::string_view, Fields>> sections{
      {"model", model_fields()}, {"data", data_fields()}, {"optim", optim_fields()},
      {"train", train_fields()}, {"run", run_fields()},   {"parallel", parallel_fields()}};
  Fields all;
  for (const auto& [section, fields] : sections) {
    for (ConfigField field : fields) {
      field.section = section;
      all.push_back(field);
    }
  }
  return all;
}

}  // namespace

std::string ConfigField::name() const {
  return concat(section, ".", key);
}

std::span<const ConfigField> config_fields() {
  static const Fields kFields = all_fields();
  return kFields;
}

const ConfigField& config_field(std::string_view name) {
  const auto fields = config_fields();
  const auto found = std::ranges::find(fields, name, &ConfigField::name);
  TSR_ASSERT(found != fields.end(), "key ", name);
  return *found;
}

}  // namespace tessera
