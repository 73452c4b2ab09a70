// `tessera checkpoint reshard` and `import`: write a new checkpoint from another source.
#include <CLI/CLI.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <optional>

#include "cli/checkpoint/actions.h"
#include "cli/parse.h"
#include "cli/progress_bar.h"
#include "cli/verify_files.h"
#include "tessera/base/check.h"
#include "tessera/base/read_file.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/checkpoint/box_copy.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/format/checkpoint/save_plan.h"
#include "tessera/format/checkpoint/shard_files.h"
#include "tessera/format/checkpoint/torch_checkpoint.h"
#include "tessera/format/weight_files.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string from, to;
  std::optional<int64_t> ranks = 1;
  std::string strip;
};

/// The tensors of a checkpoint to be written, and where their bytes come from.
struct Source {
  std::vector<HeldTensor> tensors = {};
  std::function<void(const PieceToSave&, std::span<std::byte>)> read = {};
  int64_t step = 0;
  Metadata state = {};
};

HeldTensor whole(std::string name, DType dtype, std::vector<int64_t> shape) {
  if (shape.empty()) shape = {1};
  const Box box{shape, std::vector<int64_t>(shape.size(), 0)};
  return {std::move(name), dtype, std::move(shape), {box}};
}

Source source_of(const Checkpoint& from) {
  Source source{.step = from.index().step, .state = from.index().state};
  for (const auto& [name, tensor] : from.index().tensors) {
    source.tensors.push_back(whole(name, tensor.dtype, tensor.shape));
  }
  source.read = [&](const PieceToSave& piece, std::span<std::byte> out) {
    from.read(piece.name, piece.box, out);
  };
  return source;
}

Source source_of(const WeightFiles& from, const std::string& folder) {
  Source source;
  for (const std::string& name : from.names()) {
    source.tensors.push_back(whole(name, from.spec(name).dtype, from.spec(name).shape));
  }
  const fs::path config = fs::path(folder) / "config.json";
  if (fs::exists(config)) source.state["config.json"] = read_file(config, size_t{1} << 20);
  source.read = [&](const PieceToSave& piece, std::span<std::byte> out) {
    const Box all{piece.shape, std::vector<int64_t>(piece.shape.size(), 0)};
    const auto width = static_cast<size_t>(bits_of(piece.dtype) / 8);
    for_each_shared_run(all, piece.box, piece.box, [&](int64_t begin, int64_t to, int64_t size) {
      from.read(piece.name, static_cast<size_t>(begin) * width,
                out.subspan(static_cast<size_t>(to) * width, static_cast<size_t>(size) * width));
    });
  };
  return source;
}

// Names without the prefix; PyTorch's users often save {"model": …, "optim": …}.
Source source_of(const TorchCheckpoint& from, const std::string& prefix) {
  Source source;
  std::map<std::string, std::string> names;  // From the new name to that in the folder.
  for (const auto& [name, tensor] : from.tensors()) {
    const std::string short_name = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    TSR_CHECK(names.emplace(short_name, name).second, "without '", prefix,
              "' two tensors are called '", short_name, "'; give another --strip");
    source.tensors.push_back(whole(short_name, tensor.dtype, tensor.shape));
  }
  TSR_CHECK(!names.empty(), "the folder holds no tensors");
  source.read = [&from, names](const PieceToSave& piece, std::span<std::byte> out) {
    const std::string& name = names.at(piece.name);
    const bool scalar = from.tensors().at(name).shape.empty();
    from.read(name, scalar ? Box{} : piece.box, out);
  };
  return source;
}

// As that many ranks would have saved it that all hold everything.
void write(const Source& source, const Flags& flags) {
  const std::vector<std::vector<HeldTensor>> ranks(static_cast<size_t>(*flags.ranks),
                                                   source.tensors);
  const auto plan = plan_save(ranks);
  int64_t bytes = 0;
  for (const auto& pieces : plan) bytes += bytes_of_pieces(pieces);
  CheckpointDraft draft(flags.to, bytes);
  ProgressBar bar("writing", bytes);
  CheckpointIndex index{.step = source.step, .state = source.state};
  std::vector<std::byte> block;
  for (size_t rank = 0; rank < plan.size(); ++rank) {
    const auto next = [&](size_t i) -> std::span<const std::byte> {
      const PieceToSave& piece = plan[rank][i];
      block.resize(static_cast<size_t>(piece.num_bytes()));
      source.read(piece, block);
      bar.add(piece.num_bytes());
      return block;
    };
    merge(index, write_shard(draft.path(), rank, plan[rank], next));
  }
  draft.publish(index);
}

void add_flags(CLI::App& app, Flags& flags, const char* from) {
  app.add_option("from", flags.from, from)->type_name("FROM");
  app.add_option("to", flags.to, "the new checkpoint, a folder that does not exist")
      ->type_name("TO");
  add_integer(app, "--ranks", flags.ranks, "write the files of this many ranks (1)");
}

void check_flags(const Flags& flags, const char* action) {
  constexpr int64_t kMostRanks = 99'999;  // File names have five digits.
  TSR_CHECK(!flags.to.empty(), "two paths are required: tessera checkpoint ", action, " FROM TO");
  TSR_CHECK(*flags.ranks >= 1 && *flags.ranks <= kMostRanks, "--ranks ", *flags.ranks,
            " is not from 1 to ", kMostRanks);
}

void say(const Flags& flags) {
  const Checkpoint made(flags.to);
  std::cout << concat(visible(flags.to), " holds ", made.index().tensors.size(), " tensors, ",
                      bytes_text(made.index().total_bytes()), " in ", made.index().files.size(),
                      " files\n");
}

}  // namespace

int checkpoint_reshard(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Writes a checkpoint again, in the files of another number of ranks. Loading needs no such "
      "step: any layout reads any checkpoint.",
      "tessera checkpoint reshard");
  Flags flags;
  add_flags(app, flags, "a checkpoint, or a run directory");
  if (const auto done = parse(app, arguments)) return *done;
  check_flags(flags, "reshard");
  const Checkpoint from(find_checkpoint(flags.from));
  verify_files(from);
  write(source_of(from), flags);
  say(flags);
  return kOk;
}

int checkpoint_import(const std::vector<std::string>& arguments) {
  CLI::App app(
      "Makes a checkpoint for tessera train --init-from: from a Hugging Face folder with "
      "safetensors "
      "weights, or from a folder of torch.distributed.checkpoint, of which it reads the tensors "
      "and "
      "runs nothing.",
      "tessera checkpoint import");
  Flags flags;
  add_flags(app, flags, "a Hugging Face folder, or one of torch.distributed.checkpoint");
  app.add_option("--strip", flags.strip, "remove this prefix from PyTorch's names, e.g. model.")
      ->type_name("TEXT");
  if (const auto done = parse(app, arguments)) return *done;
  check_flags(flags, "import");
  if (fs::exists(fs::path(flags.from) / ".metadata")) {
    const TorchCheckpoint from(flags.from);
    write(source_of(from, flags.strip), flags);
  } else {
    const WeightFiles from(flags.from);
    write(source_of(from, flags.from), flags);
  }
  say(flags);
  return kOk;
}

}  // namespace tessera::cli
