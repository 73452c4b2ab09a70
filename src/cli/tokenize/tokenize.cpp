// `tessera tokenize`: texts as a file of token ids.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <thread>

#include "cli/called_as.h"
#include "cli/parse.h"
#include "cli/tokenize/screen.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/number_text.h"
#include "tessera/base/terminal_text.h"
#include "tessera/text/model_tokens.h"
#include "tessera/text/tokenize_files.h"

namespace tessera::cli {
namespace {

struct Flags {
  std::string model;
  std::vector<std::string> inputs;
  std::string output;
  std::string kind = "auto";
  std::string eos;
  std::optional<int64_t> threads;
  bool no_special = false;
  bool restart = false;
};

int64_t end_of(const Flags& flags, const Tokenizer& tokenizer, const ModelTokens& model) {
  if (!flags.eos.empty()) {
    const auto id = tokenizer.find(flags.eos);
    TSR_CHECK(id.has_value(), "--eos ", visible(flags.eos), " is not a token of ", flags.model);
    return *id;
  }
  TSR_CHECK(!model.ends.empty(), "neither config.json nor tokenizer_config.json in ", flags.model,
            " names the token that ends a text; name it, e.g. --eos '</s>'");
  return model.ends.front();
}

DType type_of(const Flags& flags, const Tokenizer& tokenizer) {
  if (flags.kind == "auto" && flags.output.ends_with(".u32")) return DType::kU32;
  if (flags.kind == "auto") return smallest_token_type(tokenizer);
  return flags.kind == "u16" ? DType::kU16 : DType::kU32;
}

// What training needs to read the file, unless its name says so.
std::string kind_flag(const TokenizeJob& job) {
  const bool is_u16 = job.dtype == DType::kU16;
  if (job.output.ends_with(is_u16 ? ".bin" : ".u32")) return "";
  return is_u16 ? " --data.kind=u16" : " --data.kind=u32";
}

void print_result(const Flags& flags, const TokenizeJob& job, const TokenizeProgress& done) {
  std::cout << concat(visible(flags.output), ": ", with_thousands(done.tokens), " tokens (",
                      to_string(job.dtype), ") of ", with_thousands(done.documents - done.skipped),
                      done.documents - done.skipped == 1 ? " document" : " documents",
                      done.skipped > 0 ? concat("; ", done.skipped, " files are not text") : "",
                      "\n", "Train on it: ", called_as(), " train --model ", visible(flags.model),
                      " --data ", visible(flags.output), kind_flag(job), "\n");
}

}  // namespace

int run_tokenize(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Encodes texts by a Hugging Face folder's tokenizer.json and writes the token ids to one "
      "file. Each text file is a document. The same command continues after an interruption.",
      "tessera tokenize");
  Flags flags;
  app.add_option("--model", flags.model, "the folder of tokenizer.json")->type_name("DIR");
  app.add_option("--in", flags.inputs, "text files and folders of them, UTF-8")
      ->type_name("FILE|DIR");
  app.add_option("--out", flags.output, "the token file, e.g. tokens.bin, or tokens.u32 for u32")
      ->type_name("FILE");
  add_choice(app, "--kind", flags.kind, {"auto", "u16", "u32"},
             "type of the ids: auto is u16 if all of them fit");
  app.add_option(
         "--eos", flags.eos,
         "token appended to each document (default: that of config.json, generation_config.json or "
         "tokenizer_config.json)")
      ->type_name("TOKEN");
  app.add_flag("--no-special", flags.no_special,
               "leave out the tokens that the tokenizer puts around a text, e.g. BOS");
  add_integer(app, "--threads", flags.threads, "threads (default: one for each core)");
  app.add_flag("--restart", flags.restart, "replace the output, and forget an unfinished one");
  if (const auto done = parse(app, arguments)) return *done;

  TSR_CHECK(
      !flags.model.empty() && !flags.inputs.empty() && !flags.output.empty(),
      "a model, texts and an output are required: tessera tokenize --model DIR --in FILES --out "
      "tokens.bin");
  const Tokenizer tokenizer = Tokenizer::read(flags.model);
  const ModelTokens model = read_model_tokens(flags.model, tokenizer);
  const TokenizeJob job{
      .inputs = flags.inputs,
      .output = flags.output,
      .dtype = type_of(flags, tokenizer),
      .end = end_of(flags, tokenizer, model),
      .add_special = !flags.no_special,
      .threads = flags.threads.value_or(std::max<int64_t>(1, std::thread::hardware_concurrency())),
      .restart = flags.restart};
  TokenizeProgress done;
  {
    TokenizeScreen screen;
    done = tokenize_files(tokenizer, job, [&](const auto& progress) { screen.show(progress); });
  }
  print_result(flags, job, done);
  return kOk;
}

}  // namespace tessera::cli
