// `tessera export`: writes the weights of a run as a Hugging Face folder.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>

#include "cli/parse.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/base/read_file.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/new_file.h"
#include "tessera/format/weight_files.h"
#include "tessera/run/run_folder.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string run, folder;
  std::string shard_size = "5GB";
};

/// "500MB", "5GiB", "1000000".
int64_t parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    int64_t bytes;
  };
  constexpr std::array kUnits{Unit{"KB", 1'000},         Unit{"MB", 1'000'000},
                              Unit{"GB", 1'000'000'000}, Unit{"KiB", 1 << 10},
                              Unit{"MiB", 1 << 20},      Unit{"GiB", 1 << 30}};
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = to_integer(text.substr(0, end));
  const std::string_view unit = text.substr(end);
  const auto* known = std::ranges::find(kUnits, unit, &Unit::name);
  TSR_CHECK(number && *number > 0 && (unit.empty() || known != kUnits.end()), "--shard-size ", text,
            " is not a size; give bytes, or a number with KB, MB, GB, KiB, MiB or GiB");
  return unit.empty() ? *number : checked_multiply(*number, known->bytes, "--shard-size");
}

// config.json is written after the weights: if it exists, they are complete.
std::string model_of(const std::string& run) {
  const fs::path model = fs::path(run) / RunFolder::kModel;
  if (fs::exists(model / "config.json")) return model;
  const bool is_run = fs::exists(fs::path(run) / RunFolder::kMetrics);
  throw DataError(concat(run, is_run ? " holds no weights; train again with --run.save=true"
                                     : " is not a run directory: it holds no model"));
}

void check_empty(const std::string& folder) {
  TSR_CHECK(!fs::exists(folder) || (fs::is_directory(folder) && fs::is_empty(folder)), folder,
            " exists and is not an empty folder; choose another one");
}

void copy_weights(const WeightFiles& from, const std::string& to, int64_t shard_bytes) {
  std::vector<TensorSpec> tensors;
  for (const SafetensorsFile& file : from.files()) {
    for (const StoredTensor& tensor : file.tensors()) tensors.push_back(tensor.spec);
  }
  write_weight_files(
      to, tensors, shard_bytes,
      [&](const TensorSpec& spec, SafetensorsWriter& file) { file.write(from.bytes(spec.name)); });
}

void copy_config(const std::string& from, const std::string& to) {
  NewFile file(fs::path(to) / "config.json");
  file.write(read_file(fs::path(from) / "config.json", size_t{1} << 20));
  file.finish();
}

}  // namespace

int run_export(const std::vector<std::string>& arguments) {
  CLI::App app("Writes the weights of a run as a Hugging Face folder.", "tessera export");
  Flags flags;
  app.add_option("run", flags.run, "the run directory")->type_name("RUN");
  app.add_option("folder", flags.folder, "the new folder")->type_name("DIR");
  app.add_option("--shard-size", flags.shard_size, "largest file size (5GB)")->type_name("SIZE");
  if (const auto done = parse(app, arguments)) return *done;

  TSR_CHECK(!flags.folder.empty(), "a run and a new folder are wanted: tessera export RUN DIR");
  const int64_t shard_bytes = parse_bytes(flags.shard_size);
  const std::string model = model_of(flags.run);
  check_empty(flags.folder);
  copy_weights(WeightFiles(model), flags.folder, shard_bytes);
  copy_config(model, flags.folder);
  std::cout << concat(visible(flags.folder), " holds ", WeightFiles(flags.folder).files().size(),
                      " weight file(s) and config.json; transformers loads it by "
                      "LlamaForCausalLM.from_pretrained\n");
  return kOk;
}

}  // namespace tessera::cli
