// The one list of all keys.
#include "tessera/train/config_fields.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/format/llama_presets.h"
#include "tessera/train/token_source.h"

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

Fields model_fields() {
  return {
      {.key = "preset",
       .target = at<&C::model, &ModelSection::preset>,
       .help = "a shape that has a name; the keys below change it",
       .flag = "--preset",
       .choices = llama_preset_names},
      {.key = "path",
       .target = at<&C::model, &ModelSection::path>,
       .help = "a Hugging Face folder, instead of a preset and the keys below",
       .flag = "--model"},
      {.key = "vocab_size",
       .target = kShape<&LlamaConfig::vocab_size>,
       .help = "token ids of the model",
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
       .help = "blocks",
       .least = 1},
      {.key = "num_attention_heads",
       .target = kShape<&LlamaConfig::num_attention_heads>,
       .help = "heads of each attention",
       .least = 1},
      {.key = "num_key_value_heads",
       .target = kShape<&LlamaConfig::num_key_value_heads>,
       .help = "key-value heads, which groups of heads share",
       .least = 1,
       .otherwise = "the preset's; num_attention_heads where that is given"},
      {.key = "head_dim",
       .target = kShape<&LlamaConfig::head_dim>,
       .help = "width of a head",
       .least = 1,
       .otherwise = "hidden_size / num_attention_heads"},
      {.key = "max_position_embeddings",
       .target = kShape<&LlamaConfig::max_position_embeddings>,
       .help = "longest text that the model is said to be made for",
       .least = 1},
      {.key = "rms_norm_eps",
       .target = kShape<&LlamaConfig::rms_norm_eps>,
       .help = "what a norm adds to the mean square",
       .least = 0},
      {.key = "rope_theta",
       .target = kShape<&LlamaConfig::rope_theta>,
       .help = "base of the rotary embedding",
       .least = 1},
      {.key = "tie_word_embeddings",
       .target = kShape<&LlamaConfig::tie_word_embeddings>,
       .help = "whether the head is the embedding"},
      {.key = "attention_bias",
       .target = kShape<&LlamaConfig::attention_bias>,
       .help = "whether the linears of the attention have a bias"},
      {.key = "mlp_bias",
       .target = kShape<&LlamaConfig::mlp_bias>,
       .help = "whether the linears of the feed-forward layers have a bias"},
      {.key = "initializer_range",
       .target = kShape<&LlamaConfig::initializer_range>,
       .help = "standard deviation of the initial weights",
       .least = 0},
  };
}

Fields data_fields() {
  return {
      {.key = "paths",
       .target = at<&C::data, &DataSection::paths>,
       .help = "text files, folders of texts, token files",
       .flag = "--data",
       .otherwise = "Tessera's own sources and documents"},
      {.key = "weights",
       .target = at<&C::data, &DataSection::weights>,
       .help = "how much each path counts; none: by its size"},
      {.key = "kind",
       .target = at<&C::data, &DataSection::kind>,
       .help = "what files hold; auto: .npy says it, .bin is u16, others are bytes",
       .choices = token_kind_names},
      {.key = "seq",
       .target = at<&C::data, &DataSection::seq>,
       .help = "tokens of a row",
       .flag = "--seq",
       .least = 1},
      {.key = "batch",
       .target = at<&C::data, &DataSection::batch>,
       .help = "rows of a step, over all ranks",
       .flag = "--batch",
       .least = 1},
      {.key = "shuffle",
       .target = at<&C::data, &DataSection::shuffle>,
       .help = "a new order each epoch; otherwise the files' order",
       .off_flag = "--no-shuffle"},
      {.key = "seed",
       .target = at<&C::data, &DataSection::seed>,
       .help = "decides the order",
       .least = 0},
      {.key = "validation_share",
       .target = at<&C::data, &DataSection::validation_share>,
       .help = "the last part of each source, which is not trained on",
       .least = 0,
       .most = 0.9,
       .otherwise = "0.05; 0 where train.validate_every is 0"},
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
       .help = "the highest learning rate",
       .flag = "--lr",
       .least = 0},
      {.key = "schedule",
       .target = at<&C::optim, &OptimSection::schedule>,
       .help = "how the rate goes on after the warm-up",
       .choices = [] { return Names{"constant", "cosine", "wsd"}; },
       .otherwise = "cosine; constant with a model's path"},
      {.key = "warmup",
       .target = at<&C::optim, &OptimSection::warmup>,
       .help = "steps in which the rate rises",
       .least = 0,
       .otherwise = "steps / 10, at most 50; 0 with a model's path"},
      {.key = "decay",
       .target = at<&C::optim, &OptimSection::decay>,
       .help = "the last steps, in which the rate of wsd falls",
       .least = 0,
       .otherwise = "0; steps / 5 with wsd"},
      {.key = "final",
       .target = at<&C::optim, &OptimSection::final>,
       .help = "where the rate falls to, as a share of lr; constant stays",
       .least = 0,
       .most = 1},
      {.key = "beta1",
       .target = at<&C::optim, &OptimSection::beta1>,
       .help = "memory of AdamW's mean gradient",
       .least = 0,
       .most = 1},
      {.key = "beta2",
       .target = at<&C::optim, &OptimSection::beta2>,
       .help = "memory of AdamW's mean square",
       .least = 0,
       .most = 1},
      {.key = "eps",
       .target = at<&C::optim, &OptimSection::eps>,
       .help = "what AdamW adds to the root of it",
       .least = 0},
      {.key = "momentum",
       .target = at<&C::optim, &OptimSection::momentum>,
       .help = "of sgd",
       .least = 0},
      {.key = "weight_decay",
       .target = at<&C::optim, &OptimSection::weight_decay>,
       .help = "on every parameter",
       .flag = "--weight-decay",
       .least = 0},
      {.key = "clip",
       .target = at<&C::optim, &OptimSection::clip>,
       .help = "largest norm of the gradient; 0: no limit",
       .flag = "--clip",
       .off_flag = "--no-clip",
       .least = 0,
       .otherwise = "1; 0 with a model's path"},
      {.key = "accumulate",
       .target = at<&C::optim, &OptimSection::accumulate>,
       .help = "slices of a batch, computed one after the other",
       .least = 1},
  };
}

Fields train_fields() {
  return {
      {.key = "steps",
       .target = at<&C::train, &TrainSection::steps>,
       .help = "updates of the run",
       .flag = "--steps",
       .least = 1},
      {.key = "dtype",
       .target = at<&C::train, &TrainSection::dtype>,
       .help = "of the parameters",
       .flag = "--dtype",
       .choices = [] { return Names{"fp32", "bf16", "fp64"}; }},
      {.key = "threads",
       .target = at<&C::train, &TrainSection::threads>,
       .help = "of each rank; 0: the cores, which the ranks of a host share",
       .flag = "--threads",
       .least = 0},
      {.key = "seed",
       .target = at<&C::train, &TrainSection::seed>,
       .help = "decides the initial weights",
       .least = 0},
      {.key = "device",
       .target = at<&C::train, &TrainSection::device>,
       .help = "where it runs",
       .flag = "--device",
       .choices = [] { return Names{"cpu", "cuda"}; }},
      {.key = "validate_every",
       .target = at<&C::train, &TrainSection::validate_every>,
       .help = "steps between two validation losses; 0: none",
       .least = 0,
       .otherwise = "steps / 10; 0 with a model's path or without held-out data"},
      {.key = "validate_batches",
       .target = at<&C::train, &TrainSection::validate_batches>,
       .help = "batches of a validation loss, if there are as many",
       .least = 1},
  };
}

Fields run_fields() {
  return {
      {.key = "dir",
       .target = at<&C::run, &RunSection::dir>,
       .help = "the folder for all that the run writes",
       .flag = "--run-dir",
       .otherwise = "the first of runs/1, runs/2, … that is not there"},
      {.key = "overwrite",
       .target = at<&C::run, &RunSection::overwrite>,
       .help = "replaces the run that is in the folder",
       .flag = "--overwrite"},
      {.key = "resume",
       .target = at<&C::run, &RunSection::resume>,
       .help = "goes on with the run that is in the folder",
       .flag = "--resume"},
      {.key = "save",
       .target = at<&C::run, &RunSection::save>,
       .help = "writes the weights at the end",
       .otherwise = "true; false with a model's path"},
      {.key = "record_every",
       .target = at<&C::run, &RunSection::record_every>,
       .help = "steps from one whose pipeline actions are timed to the next; 0: none",
       .least = 0,
       .otherwise = "a fourth of the steps with a pipeline; 0 with a model's path"},
  };
}

constexpr double kMostRanks = 1 << 16;  // Products of four stay numbers.

Fields parallel_fields() {
  return {
      {.key = "nproc",
       .target = at<&C::parallel, &ParallelSection::nproc>,
       .help = "ranks",
       .flag = "--nproc",
       .least = 1,
       .most = kMostRanks,
       .otherwise = "dp · tp · cp · pp"},
      {.key = "dp",
       .target = at<&C::parallel, &ParallelSection::dp>,
       .help = "parts of the batch",
       .flag = "--dp",
       .least = 1,
       .most = kMostRanks,
       .otherwise = "the ranks that other axes leave; 2 where nothing is said of ranks or model"},
      {.key = "tp",
       .target = at<&C::parallel, &ParallelSection::tp>,
       .help = "parts of each matrix",
       .flag = "--tp",
       .least = 1,
       .most = kMostRanks},
      {.key = "cp",
       .target = at<&C::parallel, &ParallelSection::cp>,
       .help = "parts of each row",
       .flag = "--cp",
       .least = 1,
       .most = kMostRanks},
      {.key = "pp",
       .target = at<&C::parallel, &ParallelSection::pp>,
       .help = "parts of the list of blocks",
       .flag = "--pp",
       .least = 1,
       .most = kMostRanks,
       .otherwise = "1; 2 where nothing is said of ranks or model"},
      {.key = "ep",
       .target = at<&C::parallel, &ParallelSection::ep>,
       .help = "parts of the experts",
       .flag = "--ep",
       .least = 1,
       .most = kMostRanks},
      {.key = "dp_type",
       .target = at<&C::parallel, &ParallelSection::dp_type>,
       .help = "what data-parallel ranks hold: all parameters or shards of them",
       .flag = "--dp-type",
       .choices = [] { return Names{"ddp", "fsdp", "hsdp"}; }},
      {.key = "dp_replicate",
       .target = at<&C::parallel, &ParallelSection::dp_replicate>,
       .help = "groups of dp that hold the same shards",
       .flag = "--dp-replicate",
       .least = 1},
      {.key = "schedule",
       .target = at<&C::parallel, &ParallelSection::schedule>,
       .help = "of the pipeline: a kind or a CSV file",
       .flag = "--schedule"},
      {.key = "microbatches",
       .target = at<&C::parallel, &ParallelSection::microbatches>,
       .help = "parts of a batch in the pipeline",
       .flag = "--microbatches",
       .least = 1,
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
