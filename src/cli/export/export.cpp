// `tessera export`: writes the weights of a run or a checkpoint as a Hugging Face folder.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>

#include "cli/checkpoint/values.h"
#include "cli/parse.h"
#include "cli/progress_bar.h"
#include "cli/verbs.h"
#include "cli/verify_files.h"
#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/base/read_file.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/format/checkpoint/shard_files.h"
#include "tessera/format/new_file.h"
#include "tessera/format/weight_files.h"
#include "tessera/run/model_source.h"
#include "tessera/run/tokenizer_files.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string run, folder;
  std::string shard_size = "5GB";
  bool ema = false;
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

bool is_weight(const std::string& name) {
  return subfolder_of(name) == kModelSubfolder;
}

/// The tensors of a checkpoint to export: the weights, or their averages, under the weights' names.
class ExportedTensors {
 public:
  explicit ExportedTensors(bool averages) : averages_(averages) {}

  std::string stored_name(const std::string& weight) const {
    return averages_ ? concat("optim.state.", weight, ".ema") : weight;
  }

  std::vector<TensorSpec> specs(const Checkpoint& from) const {
    std::vector<TensorSpec> found;
    for (const auto& [name, weight] : from.index().tensors) {
      if (!is_weight(name)) continue;
      if (!from.contains(stored_name(name))) {
        throw DataError(concat(from.folder(), " holds no average of '", visible(name),
                               "'; was it saved by tessera train --ema-decay?"));
      }
      const auto& tensor = from.tensor(stored_name(name));
      found.push_back({name, tensor.dtype, tensor.shape});
    }
    return found;
  }

 private:
  bool averages_;
};

// Reads one tensor at a time.
void copy_weights(const Checkpoint& from, const ExportedTensors& exported, const std::string& to,
                  int64_t shard_bytes) {
  const std::vector<TensorSpec> tensors = exported.specs(from);
  int64_t bytes = 0;
  for (const TensorSpec& tensor : tensors) bytes += *bytes_of(tensor.dtype, tensor.shape);
  ProgressBar bar("exporting", bytes);
  write_weight_files(to, tensors, shard_bytes,
                     [&](const TensorSpec& spec, SafetensorsWriter& file) {
                       const std::string name = exported.stored_name(spec.name);
                       for_each_block(from.tensor(name), [&](const Box& box) {
                         std::vector<std::byte> block(
                             static_cast<size_t>(box.numel() * (bits_of(spec.dtype) / 8)));
                         from.read(name, box, block);
                         file.write(block);
                         bar.add(static_cast<int64_t>(block.size()));
                       });
                     });
}

void write_config(const std::string& text, const std::string& to) {
  NewFile file(fs::path(to) / "config.json");
  file.write(text);
  file.finish();
}

void export_checkpoint(const std::string& path, bool ema, const std::string& to,
                       int64_t shard_bytes) {
  const Checkpoint checkpoint(path);
  const std::string config = stored_model_text(checkpoint);
  verify_files(checkpoint, ema ? "" : kModelSubfolder);
  copy_weights(checkpoint, ExportedTensors(ema), to, shard_bytes);
  copy_tokenizer(find_tokenizer(path), to, stored_model_config(checkpoint).vocab_size);
  write_config(config, to);
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

void export_model(const std::string& model, const std::string& to, int64_t shard_bytes) {
  copy_weights(WeightFiles(model), to, shard_bytes);
  copy_tokenizer(model, to, read_llama_config(model).vocab_size);
  write_config(read_file(fs::path(model) / "config.json", size_t{1} << 20), to);
}

}  // namespace

int run_export(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Writes the weights of a run as a Hugging Face folder: those of its end, or, if it has not "
      "ended, of its newest checkpoint. Or those of a checkpoint.",
      "tessera export");
  Flags flags;
  app.add_option("run", flags.run, "the run directory, or a checkpoint")->type_name("RUN");
  app.add_option("folder", flags.folder, "the new folder")->type_name("DIR");
  app.add_option("--shard-size", flags.shard_size, "largest file size (5GB)")->type_name("SIZE");
  app.add_flag("--ema", flags.ema, "the averaged weights of its newest checkpoint (--ema-decay)");
  if (const auto done = parse(app, arguments)) return *done;

  TSR_CHECK(!flags.folder.empty(), "a run and a new folder are required: tessera export RUN DIR");
  const int64_t shard_bytes = parse_bytes(flags.shard_size);
  // Averages are in checkpoints alone.
  const ModelSource source =
      flags.ema ? ModelSource{find_checkpoint(flags.run), true} : find_model(flags.run);
  check_empty(flags.folder);
  source.is_checkpoint ? export_checkpoint(source.path, flags.ema, flags.folder, shard_bytes)
                       : export_model(source.path, flags.folder, shard_bytes);
  std::cout << concat(visible(flags.folder), " holds ", WeightFiles(flags.folder).files().size(),
                      " weight file(s) and config.json; transformers loads it by "
                      "LlamaForCausalLM.from_pretrained\n");
  return kOk;
}

}  // namespace tessera::cli
