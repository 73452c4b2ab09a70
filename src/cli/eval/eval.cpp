// `tessera eval`: how well a model predicts texts.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/json_text.h"
#include "cli/parse.h"
#include "cli/progress_bar.h"
#include "cli/terminal.h"
#include "cli/train/encode.h"
#include "cli/train/flags.h"
#include "cli/verb_ranks.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/number_text.h"
#include "tessera/comm/launch_info.h"
#include "tessera/launch/launcher.h"
#include "tessera/run/model_source.h"
#include "tessera/run/resume.h"
#include "tessera/run/tokenizer_files.h"
#include "tessera/train/evaluate.h"
#include "tessera/train/texts.h"
#include "tessera/train/train_model.h"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string model;
  bool json = false;
  ConfigLayers layers = {};
};

// The keys of `tessera train` that matter for a loss without training.
bool is_for_eval(const ConfigField& field) {
  constexpr std::array kKeys{"data.paths",  "data.kind",    "data.tokenizer", "data.cache",
                             "data.seq",    "data.batch",   "data.documents", "data.document_end",
                             "train.dtype", "train.device", "train.threads",  "run.timeout"};
  constexpr std::array kBackward{"recompute", "reduce", "reduce_dtype"};
  if (std::ranges::find(kKeys, field.name()) != kKeys.end()) return true;
  return field.section == "parallel" && std::ranges::find(kBackward, field.key) == kBackward.end();
}

/// What is evaluated.
struct Subject {
  TrainConfig config;
  std::string checkpoint = {};  // With the weights; "": those of config.model.
};

ConfigAssignment assignment(std::string_view name, ConfigValue value) {
  return {&config_field(name), std::move(value), "--model"};
}

// A run's own rows and texts, unless flags ask for others.
std::vector<ConfigAssignment> defaults_of(const std::string& model) {
  std::vector<ConfigAssignment> defaults{assignment("data.tokenizer", find_tokenizer(model))};
  const auto run = find_run_config(model);
  if (!run) return defaults;
  for (const char* const name : {"data.seq", "data.batch", "data.documents", "data.document_end"}) {
    defaults.push_back(assignment(name, value_of(config_field(name), *run)));
  }
  if (run->data.kind == "bytes") defaults.push_back(assignment("data.kind", run->data.kind));
  return defaults;
}

Subject subject_of(const Flags& flags) {
  const ModelSource source = find_model(flags.model);
  ConfigLayers layers = flags.layers;
  layers.file = defaults_of(flags.model);
  layers.flags.push_back(assignment("model.path", source.path));
  Subject subject{.config = resolve(layers)};
  ModelSection& model = subject.config.model;
  if (!source.is_checkpoint) {
    check_texts(subject.config, shape_of(model));
    return subject;
  }
  const LlamaConfig shape = stored_model_config(Checkpoint(source.path));
  check_texts(subject.config, shape);
  model = {.preset = "", .path = "", .shape = shape};
  subject.checkpoint = source.path;
  return subject;
}

void show(double share, RedrawnBar& bar) {
  if (!bar.is_due()) return;
  const double left = bar.seconds() / share * (1 - share);
  bar.draw(share, {{"evaluating", 6}, {percent(share), 5}, {clock_text(left) + " left", 4}});
}

void print_json(const Flags& flags, const TrainConfig& config, const Evaluation& result,
                double seconds) {
  nlohmann::ordered_json json{{"model", flags.model},
                              {"data", config.data.paths},
                              {"loss", result.loss},
                              {"perplexity", result.perplexity()},
                              {"bits_per_byte", nullptr},
                              {"tokens", result.tokens},
                              {"bytes", nullptr},
                              {"seq", config.data.seq},
                              {"batch", config.data.batch},
                              {"dtype", config.train.dtype},
                              {"ranks", config.parallel.nproc},
                              {"seconds", seconds}};
  if (const auto bits = result.bits_per_byte()) json["bits_per_byte"] = *bits;
  if (result.bytes) json["bytes"] = *result.bytes;
  data_out() << json_text(json, 1) << "\n";
}

void print_text(const TrainConfig& config, const Evaluation& result, double seconds) {
  const auto bits = result.bits_per_byte();
  const std::string bytes =
      result.bytes ? concat(" of ", with_thousands(*result.bytes), " bytes") : "";
  std::cout << concat("loss ", fixed(result.loss, 4), ", perplexity ",
                      fixed(result.perplexity(), 3),
                      bits ? concat(", ", fixed(*bits, 4), " bits per byte") : "", "\n",
                      with_thousands(result.tokens), " tokens", bytes, " in rows of ",
                      config.data.seq, ", ", fixed(seconds, 1), " s\n");
}

int evaluate_here(const Flags& flags, const Subject& subject, bool is_first) {
  if (is_first) encode_texts_of(subject.config);
  const Clock::time_point start = Clock::now();
  Evaluation result;
  {
    RedrawnBar bar;
    result = evaluate(subject.config, subject.checkpoint, [&](double share) {
      if (is_first) show(share, bar);
    });
  }
  if (!result.is_first_rank) return kOk;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  flags.json ? print_json(flags, subject.config, result, seconds)
             : print_text(subject.config, result, seconds);
  return kOk;
}

}  // namespace

int run_eval(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Prints the loss, perplexity and bits per byte of a model over all tokens of texts or token "
      "files. The model is a Hugging Face folder, a run or a checkpoint; any layout works.",
      "tessera eval");
  Flags flags;
  app.add_option("--model", flags.model, "a Hugging Face folder, a run directory or a checkpoint")
      ->type_name("DIR");
  app.add_flag("--json", flags.json, "print JSON");
  add_config_flags(app, flags.layers, is_for_eval);
  if (const auto done = parse(app, arguments)) return *done;
  TSR_CHECK(!flags.model.empty(), "a model is required: give --model DIR");
  const Subject subject = subject_of(flags);
  check_evaluation(subject.config);
  const LaunchInfo launch_info = read_launch_info(process_environment());
  const int64_t ranks = subject.config.parallel.nproc;
  if (launch_info.launcher == "none" && ranks > 1) {
    encode_texts_of(subject.config);
    return launch(verb_ranks("eval", ranks, arguments));
  }
  TSR_CHECK(launch_info.world_size == ranks, "the launcher (", launch_info.launcher,
            ") has started ", launch_info.world_size, " ranks, but --nproc is ", ranks,
            "; give the same number to both");
  return evaluate_here(flags, subject, launch_info.rank == 0);
}

}  // namespace tessera::cli
