#include "tessera/config/layers.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/format/llama_presets.h"

namespace tessera {
namespace {

using Assignments = std::vector<ConfigAssignment>;

constexpr int64_t kSampleTokens = 200;  // Two or three lines of text.

/// All assignments; later ones override earlier ones.
class Given {
 public:
  explicit Given(const ConfigLayers& layers) {
    for (const Assignments* layer : {&layers.file, &layers.flags, &layers.overrides}) {
      all_.insert(all_.end(), layer->begin(), layer->end());
    }
    for (const ConfigAssignment& one : all_) names_.insert(one.field->name());
  }

  const Assignments& all() const { return all_; }
  bool has(const std::string& name) const { return names_.contains(name); }

 private:
  Assignments all_;
  std::set<std::string> names_;
};

// Refuses e.g. --no-clip together with --clip 1.
void check_switches(const ConfigLayers& layers) {
  Assignments words = layers.flags;
  words.insert(words.end(), layers.overrides.begin(), layers.overrides.end());
  for (const ConfigAssignment& off : words) {
    if (off.field->off_flag.empty() || off.origin != off.field->off_flag) continue;
    for (const ConfigAssignment& other : words) {
      TSR_CHECK(other.field != off.field || other.value == off.value, off.origin, " and ",
                other.origin, " ", other.text(), " contradict each other; leave one out");
    }
  }
}

void check_from_folder(const Given& given, const std::string& path) {
  for (const ConfigAssignment& one : given.all()) {
    TSR_CHECK(one.field->section != "model" || one.field->key == "path", one.field->name(), " (",
              one.origin, ") and the model in ", path,
              " contradict each other: a folder brings its shape; leave one out");
  }
}

// The last value given for a string key, or `otherwise`.
std::string text_of(const Given& given, std::string_view name, std::string otherwise) {
  for (const ConfigAssignment& one : given.all()) {
    if (one.field->name() == name) otherwise = std::get<std::string>(one.value);
  }
  return otherwise;
}

ModelSection base_model(const Given& given) {
  ModelSection model;
  model.path = text_of(given, "model.path", "");
  if (!model.path.empty()) {
    check_from_folder(given, model.path);
    model.preset = "";
    return model;
  }
  model.preset = text_of(given, "model.preset", model.preset);
  model.shape = llama_preset(model.preset);
  return model;
}

void apply(const Given& given, TrainConfig& config) {
  for (const ConfigAssignment& one : given.all()) {
    try {
      assign(*one.field, one.value, config, one.given);
    } catch (const ConfigError& error) {
      throw ConfigError(concat(one.origin, ": ", error.what()));
    }
  }
}

// The defaults that Hugging Face uses for keys missing in config.json.
void derive_heads(const Given& given, LlamaConfig& shape) {
  const bool heads = given.has("model.num_attention_heads");
  if (heads && !given.has("model.num_key_value_heads")) {
    shape.num_key_value_heads = shape.num_attention_heads;
  }
  if ((heads || given.has("model.hidden_size")) && !given.has("model.head_dim")) {
    shape.head_dim = shape.hidden_size / shape.num_attention_heads;
  }
}

std::vector<std::string> own_sources() {
  const std::filesystem::path root(TESSERA_SOURCE_DIR);
  std::vector<std::string> paths{root / "src", root / "docs"};
  for (const std::string& path : paths) {
    TSR_CHECK(std::filesystem::is_directory(path), "without --data, Tessera's own sources and ",
              "documents are the data, but ", path, " does not exist; give --data FILE or FOLDER");
  }
  return paths;
}

std::string own_tokenizer(const std::string& model) {
  if (model.empty()) return "";
  std::error_code error;  // The model's files are read later, with better messages.
  return std::filesystem::exists(std::filesystem::path(model) / "tokenizer.json", error) ? model
                                                                                         : "";
}

// Whether the end of a run can wait until a model of this shape has written some text. In floating
// point, since the shape has not been checked yet.
bool writes_fast(const LlamaConfig& shape) {
  constexpr double kMostParameters = 1e8;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  const double experts = std::max(1.0, number(shape.num_experts));
  const double layer = 4 * number(shape.hidden_size) + 3 * number(shape.expert_size()) * experts;
  return number(shape.hidden_size) *
             (number(shape.num_hidden_layers) * layer + 2 * number(shape.vocab_size)) <
         kMostParameters;
}

void check_folder(const RunSection& run) {
  TSR_CHECK(!run.dir.empty() || (!run.overwrite && !run.resume),
            run.overwrite ? "--overwrite" : "--resume", " needs --run-dir DIR");
}

// Whether all that is given about ranks fits a pipeline of any size.
bool is_of_any_pipeline(const Given& given) {
  return std::ranges::all_of(given.all(), [](const ConfigAssignment& one) {
    return one.field->section != "parallel" || one.field->key == "schedule" ||
           one.field->key == "microbatches";
  });
}

// Ranks that no other axis uses are replicas. Without other parallel keys, a run uses both DP and
// PP.
void derive_parallel(const Given& given, bool from_folder, int64_t batch,
                     ParallelSection& parallel) {
  if (!from_folder && is_of_any_pipeline(given)) parallel.dp = parallel.pp = 2;
  const int64_t others =
      checked_product(std::array{parallel.tp, parallel.cp, parallel.pp}, "tp × cp × pp");
  if (!given.has("parallel.nproc")) {
    parallel.nproc = checked_multiply(parallel.dp, others, "dp × tp × cp × pp");
  } else if (!given.has("parallel.dp") && parallel.nproc % others == 0) {
    parallel.dp = parallel.nproc / others;
  }
  if (!given.has("parallel.microbatches") && parallel.pp > 1) {
    parallel.microbatches = std::clamp<int64_t>(batch / parallel.dp, 1, 2 * parallel.pp);
  }
}

// Defaults that depend on other keys.
void derive(const Given& given, TrainConfig& config) {
  const bool from_folder = !config.model.path.empty();
  const auto set = [&](const std::string& name, auto& value, auto otherwise) {
    if (!given.has(name)) value = otherwise;
  };
  auto& [model, data, optim, train, run, parallel] = config;
  if (!from_folder) derive_heads(given, model.shape);
  if (!from_folder && !given.has("data.paths")) data.paths = own_sources();
  set("optim.schedule", optim.schedule, from_folder ? "constant" : "cosine");
  set("optim.warmup", optim.warmup, from_folder ? 0 : std::min<int64_t>(50, train.steps / 10));
  set("optim.decay", optim.decay, optim.schedule == "wsd" ? (train.steps + 4) / 5 : 0);
  set("optim.clip", optim.clip, from_folder ? 0 : 1);
  const bool nothing_held_out = given.has("data.validation_share") && data.validation_share == 0;
  set("train.validate_every", train.validate_every,
      from_folder || nothing_held_out ? 0 : (train.steps + 9) / 10);
  set("data.validation_share", data.validation_share, train.validate_every > 0 ? 0.05 : 0);
  set("data.tokenizer", data.tokenizer, own_tokenizer(model.path));
  set("run.save", run.save, !from_folder);
  const bool samples = !from_folder && run.save && writes_fast(model.shape);
  set("run.sample", run.sample, samples ? kSampleTokens : 0);
  derive_parallel(given, from_folder, data.batch, parallel);
  set("run.record_every", run.record_every,
      from_folder || parallel.pp == 1 ? 0 : (train.steps + 3) / 4);
  check_folder(run);
}

}  // namespace

TrainConfig resolve(const ConfigLayers& layers) {
  check_switches(layers);
  const Given given(layers);
  TrainConfig config{.model = base_model(given)};
  apply(given, config);
  derive(given, config);
  check(config);
  return config;
}

}  // namespace tessera
