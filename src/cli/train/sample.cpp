#include "cli/train/sample.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <thread>

#include "cli/called_as.h"
#include "cli/generate/codec.h"
#include "cli/train/sample_text.h"
#include "tessera/base/error_words.h"
#include "tessera/base/shell.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/comm/launch_info.h"
#include "tessera/data/token_source.h"
#include "tessera/format/end_tokens.h"
#include "tessera/generate/generate.h"
#include "tessera/generate/language_model.h"
#include "tessera/run/run_folder.h"
#include "tessera/run/tokenizer_files.h"

namespace tessera::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{1};
constexpr double kTemperature = 0.8;

struct OutOfTime {};

std::string model_of(const TrainConfig& config) {
  return std::filesystem::path(config.run.dir) / RunFolder::kModel;
}

// Whether tokens of the run stand for text: those of a tokenizer, or bytes.
bool writes_text(const TrainConfig& config, int64_t vocab_size) {
  if (has_tokenizer(model_of(config))) return true;
  const TokenKind kind = parse_token_kind(config.data.kind);
  return vocab_size == 256 && std::ranges::all_of(config.data.paths, [&](const std::string& path) {
           return is_text(path, kind);
         });
}

std::string text_of(const Codec& codec, const std::vector<int64_t>& tokens) {
  const auto stream = codec.stream({});
  std::string text;
  for (const int64_t token : tokens) text += stream->push(token);
  return text + stream->finish();
}

std::string command_of(const TrainConfig& config, const std::string& prompt) {
  return concat(called_as(), " generate --model ", shell_word(config.run.dir), " --prompt ",
                shell_word(prompt), " --temperature ", kTemperature, " --tokens ",
                config.run.sample);
}

TextSample sample_of(const TrainConfig& config, int64_t vocab_size,
                     const std::vector<int64_t>& tokens) {
  at::set_num_threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  const std::string folder = model_of(config);
  const auto codec = find_codec(folder, vocab_size);
  std::string prompt = choose_prompt(text_of(*codec, tokens));
  if (prompt.empty()) prompt = "The";
  World alone = World::connect(LaunchInfo{}, {});
  const LanguageModel model = load_language_model(folder, {}, alone);
  const GenerateOptions options{.tokens = config.run.sample,
                                .sampling = {.temperature = kTemperature},
                                .stops = end_tokens(folder, vocab_size)};
  TextSample sample{.prompt = prompt, .command = command_of(config, prompt)};
  const std::vector<int64_t> prompt_ids = codec->encode(prompt);
  const auto stream = codec->stream(prompt_ids);
  const Clock::time_point end = Clock::now() + kLongest;
  try {
    generate(model, {prompt_ids}, options, [&](size_t, int64_t token) {
      sample.more += stream->push(token);
      if (Clock::now() > end) throw OutOfTime{};
    });
  } catch (const OutOfTime&) {  // Less text will do.
  }
  sample.more += stream->finish();
  alone.close();
  return sample;
}

}  // namespace

std::optional<TextSample> write_sample(const TrainConfig& config, int64_t vocab_size,
                                       const std::vector<int64_t>& tokens) {
  try {
    if (config.run.sample == 0 || !writes_text(config, vocab_size)) return std::nullopt;
    return sample_of(config, vocab_size, tokens);
  } catch (const std::exception& error) {
    std::cerr << concat("warning: the model wrote no sample: ", visible_lines(error_words(error)),
                        "\n");
    return std::nullopt;
  }
}

}  // namespace tessera::cli
