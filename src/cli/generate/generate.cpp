// `tessera generate`: continues prompts.
#include "tessera/generate/generate.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <thread>

#include "cli/generate/codec.h"
#include "cli/parse.h"
#include "cli/terminal.h"
#include "cli/verb_ranks.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/terminal_text.h"
#include "tessera/comm/launch_info.h"
#include "tessera/format/end_tokens.h"
#include "tessera/generate/language_model.h"
#include "tessera/launch/launcher.h"
#include "tessera/run/model_source.h"
#include "tessera/run/tokenizer_files.h"
#include "tessera/train/train_model.h"

namespace tessera::cli {
namespace {

struct Flags {
  std::string model, tokenizer;
  std::vector<std::string> prompts, prompt_ids;
  bool ids = false, greedy = false, no_stop = false;
  std::optional<int64_t> tokens, top_k, seed, threads, tp;
  double temperature = 1, top_p = 1;
  std::string dtype = "fp32", device = "cpu";
};

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("--model", flags.model, "a Hugging Face folder, a run directory or a checkpoint")
      ->type_name("DIR");
  // One value each: CLI11 takes values in brackets apart otherwise, as in "[INST] … [/INST]".
  app.add_option("--prompt", flags.prompts, "text to continue; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option("--prompt-ids", flags.prompt_ids,
                 "tokens to continue, e.g. 1,2,3; may be given several times")
      ->type_name("A,B,…")
      ->allow_extra_args(false);
  add_integer(app, "--tokens", flags.tokens, "the most new tokens per prompt (128)");
  app.add_flag("--greedy", flags.greedy, "always the most likely token");
  app.add_option("--temperature", flags.temperature,
                 "below 1: likely tokens more often; 0: as --greedy (1)")
      ->type_name("X");
  add_integer(app, "--top-k", flags.top_k, "sample from the N most likely tokens; 0: from all (0)");
  app.add_option("--top-p", flags.top_p,
                 "sample from the most likely tokens whose probabilities add up to X (1)")
      ->type_name("X");
  add_integer(app, "--seed", flags.seed, "another seed draws other tokens (0)");
  app.add_flag("--no-stop", flags.no_stop, "continue after end-of-text tokens");
  app.add_flag("--ids", flags.ids, "print the new tokens as numbers, one line per prompt");
  app.add_option("--tokenizer", flags.tokenizer,
                 "the folder of tokenizer.json, if the model's has none")
      ->type_name("DIR");
  add_integer(app, "--tp", flags.tp, "tensor parallelism: ranks that share each layer (1)");
  add_choice(app, "--dtype", flags.dtype, {"fp32", "bf16", "fp16", "fp64"},
             "dtype of the weights (fp32)");
  add_choice(app, "--device", flags.device, {"cpu", "cuda"}, "device to run on (cpu)");
  add_integer(app, "--threads", flags.threads,
              "CPU threads per rank (the cores of the host, divided by its ranks)");
}

at::ScalarType dtype_of(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp16") return at::kHalf;
  return name == "fp64" ? at::kDouble : at::kFloat;
}

TokenIds parse_ids(const std::string& text) {
  TokenIds ids;
  for (const std::string_view word : split(text, ',')) {
    const auto id = to_integer(word);
    TSR_CHECK(id.has_value(), "--prompt-ids ", visible(text),
              " is not a list of tokens; give numbers ", "with commas, e.g. 1,2,3");
    ids.push_back(*id);
  }
  return ids;
}

// A run was trained with the tokenizer of the folder that it began with.
std::string tokenizer_folder(const Flags& flags, const std::string& model) {
  if (!flags.tokenizer.empty()) return flags.tokenizer;
  const std::string found = find_tokenizer(flags.model);
  return found.empty() ? model : found;
}

// The tokens that the model's folder names, or else that of its tokenizer.
std::vector<int64_t> stops_of(const Flags& flags, const ModelSource& source, int64_t vocab_size) {
  std::vector<int64_t> ends;
  if (!source.is_checkpoint) ends = end_tokens(source.path, vocab_size);
  return ends.empty() ? end_tokens(tokenizer_folder(flags, source.path), vocab_size) : ends;
}

SamplingOptions sampling_of(const Flags& flags) {
  return {.temperature = flags.greedy ? 0 : flags.temperature,
          .top_k = flags.top_k.value_or(0),
          .top_p = flags.top_p,
          .seed = static_cast<uint64_t>(flags.seed.value_or(0))};
}

/// Prints one text while it is written, several ones each when it is complete.
class Screen {
 public:
  /// `shown` are the texts of the prompts.
  Screen(const Codec& codec, const std::vector<TokenIds>& prompts, std::vector<std::string> shown)
      : alone_(prompts.size() == 1) {
    for (size_t i = 0; i < prompts.size(); ++i) {
      texts_.push_back({.stream = codec.stream(prompts[i]), .text = std::move(shown[i])});
    }
    if (alone_) show(texts_[0].text);
  }

  void add(size_t prompt, int64_t token) {
    const std::string more = texts_[prompt].stream->push(token);
    alone_ ? show(more) : void(texts_[prompt].text += more);
  }

  void finish() {
    for (size_t i = 0; i < texts_.size(); ++i) {
      const std::string rest = texts_[i].stream->finish();
      if (!alone_) {
        show(concat("--- ", i + 1, "\n"));
        show(texts_[i].text);
      }
      show(rest + "\n");
    }
  }

 private:
  struct Text {
    std::unique_ptr<Codec::Stream> stream;
    std::string text;
  };

  // A terminal must not obey what a model writes; a file gets it as it is.
  static void show(const std::string& text) {
    static const bool is_terminal = isatty(STDOUT_FILENO) != 0;
    (is_terminal ? std::cout << visible_text(text) : data_out() << text) << std::flush;
  }

  bool alone_;
  std::vector<Text> texts_;
};

void print_ids(const std::vector<TokenIds>& texts) {
  for (const TokenIds& text : texts) data_out() << join(text, ",") << "\n";
}

int generate_here(const Flags& flags) {
  const LaunchInfo launch = read_launch_info(process_environment());
  const int64_t cores = std::thread::hardware_concurrency() / launch.local_world_size;
  at::set_num_threads(static_cast<int>(flags.threads.value_or(std::max<int64_t>(1, cores))));
  World world = World::connect();
  const ModelSource source = find_model(flags.model);
  const LanguageModel model =
      load_language_model(flags.model,
                          {.dtype = dtype_of(flags.dtype),
                           .device = flags.device == "cpu" ? at::Device(at::kCPU) : world.device()},
                          world);
  GenerateOptions options{.tokens = flags.tokens.value_or(128), .sampling = sampling_of(flags)};
  if (!flags.no_stop) options.stops = stops_of(flags, source, model.config().vocab_size);
  std::vector<TokenIds> prompts;
  for (const std::string& text : flags.prompt_ids) prompts.push_back(parse_ids(text));
  std::unique_ptr<Codec> codec;
  if (!flags.prompts.empty() || !flags.ids) {
    codec = find_codec(tokenizer_folder(flags, source.path), model.config().vocab_size);
  }
  for (const std::string& text : flags.prompts) prompts.push_back(codec->encode(text));
  std::optional<Screen> screen;
  if (world.rank() == GlobalRank{0} && !flags.ids) {
    std::vector<std::string> begins(flags.prompt_ids.size());
    begins.insert(begins.end(), flags.prompts.begin(), flags.prompts.end());
    screen.emplace(*codec, prompts, std::move(begins));
  }
  const std::vector<TokenIds> texts =
      generate(model, prompts, options, [&](size_t prompt, int64_t token) {
        if (screen) screen->add(prompt, token);
      });
  if (screen) screen->finish();
  if (world.rank() == GlobalRank{0} && flags.ids) print_ids(texts);
  world.close();
  return kOk;
}

}  // namespace

int run_generate(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Continues prompts with a model: that of a Hugging Face folder, of a run or of a checkpoint. "
      "Prints each text as it is written.",
      "tessera generate");
  Flags flags;
  add_flags(app, flags);
  if (const auto done = parse(app, arguments)) return *done;
  TSR_CHECK(!flags.model.empty(), "a model is required: give --model DIR");
  TSR_CHECK(!flags.prompts.empty() || !flags.prompt_ids.empty(),
            "a prompt is required: give --prompt TEXT or --prompt-ids A,B,…");
  check(sampling_of(flags));
  check_device(flags.device);
  const int64_t ranks = flags.tp.value_or(1);
  TSR_CHECK(ranks > 0, "--tp is ", ranks, "; give 1 or more");
  const bool is_rank = read_launch_info(process_environment()).launcher != "none";
  return ranks > 1 && !is_rank ? launch(verb_ranks("generate", ranks, arguments))
                               : generate_here(flags);
}

}  // namespace tessera::cli
