// `tessera checkpoint ls`, `show` and `verify`.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "cli/checkpoint/actions.h"
#include "cli/json_text.h"
#include "cli/parse.h"
#include "cli/progress_bar.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verify_files.h"
#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

struct PathFlags {
  std::string path;
  bool json = false;
  bool config = false;
};

void add_path(CLI::App& app, PathFlags& flags) {
  app.add_option("path", flags.path, "a checkpoint, or a run directory")->type_name("PATH");
}

void check_path(const PathFlags& flags, const char* action) {
  TSR_CHECK(!flags.path.empty(), "no path was given, e.g. tessera checkpoint ", action, " runs/1");
}

std::string state_of(const CheckpointIndex& index, const std::string& key) {
  const auto at = index.state.find(key);
  return at == index.state.end() ? "" : at->second;
}

Json json_of(const std::string& path, const CheckpointIndex& index) {
  return {{"path", path},
          {"step", index.step},
          {"tensors", index.tensors.size()},
          {"files", index.files.size()},
          {"bytes", index.total_bytes()},
          {"layout", state_of(index, "layout")},
          {"dtype", state_of(index, "dtype")}};
}

void write_table(const std::vector<std::string>& paths) {
  Table table;
  table.add_column("step", Align::kRight);
  table.add_column("tensors", Align::kRight);
  table.add_column("files", Align::kRight);
  table.add_column("size", Align::kRight);
  table.add_column("dtype");
  table.add_column("layout");
  table.add_column("path");
  for (const std::string& path : paths) {
    const Checkpoint checkpoint(path);
    const CheckpointIndex& index = checkpoint.index();
    table.add_row({std::to_string(index.step), std::to_string(index.tensors.size()),
                   std::to_string(index.files.size()), bytes_text(index.total_bytes()),
                   state_of(index, "dtype"), state_of(index, "layout"), path});
  }
  std::cout << table.to_string();
}

std::string one_line(const std::string& text) {
  const size_t end = text.find('\n');
  return end == std::string::npos ? text : text.substr(0, end) + " …";
}

void write_state(const Checkpoint& checkpoint) {
  const CheckpointIndex& index = checkpoint.index();
  Table table;
  table.add_column("state");
  table.add_column("value");
  table.add_row({"step", std::to_string(index.step)});
  for (const auto& [key, value] : index.state) table.add_row({key, one_line(value)});
  std::cout << table.to_string() << '\n';
}

void write_tensors(const Checkpoint& checkpoint) {
  Table table;
  table.add_column("tensor");
  table.add_column("dtype");
  table.add_column("shape");
  table.add_column("bytes", Align::kRight);
  table.add_column("pieces", Align::kRight);
  for (const auto& [name, tensor] : checkpoint.index().tensors) {
    table.add_row({name, std::string(to_string(tensor.dtype)), join(tensor.shape, " × "),
                   with_thousands(*bytes_of(tensor.dtype, tensor.shape)),
                   std::to_string(tensor.pieces.size())});
  }
  std::cout << table.to_string();
}

Json tensors_json(const CheckpointIndex& index) {
  Json tensors = Json::array();
  for (const auto& [name, tensor] : index.tensors) {
    Json pieces = Json::array();
    for (const CheckpointPiece& piece : tensor.pieces) {
      pieces.push_back({{"file", index.files[piece.file].path},
                        {"offset", piece.box.offset},
                        {"shape", piece.box.shape}});
    }
    tensors.push_back({{"name", name},
                       {"dtype", to_string(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"pieces", pieces}});
  }
  return tensors;
}

}  // namespace

int checkpoint_ls(const std::vector<std::string>& arguments) {
  CLI::App app("Lists the checkpoints of a run.", "tessera checkpoint ls");
  PathFlags flags;
  add_path(app, flags);
  app.add_flag("--json", flags.json, "write JSON");
  if (const auto done = parse(app, arguments)) return *done;
  check_path(flags, "ls");
  const std::vector<std::string> paths = checkpoints_of(flags.path);
  if (!flags.json) {
    write_table(paths);
    return kOk;
  }
  Json all = Json::array();
  for (const std::string& path : paths) all.push_back(json_of(path, Checkpoint(path).index()));
  data_out() << json_text(Json{{"checkpoints", all}}, 2) << '\n';
  return kOk;
}

int checkpoint_show(const std::vector<std::string>& arguments) {
  CLI::App app("Shows the tensors and the state of a checkpoint.", "tessera checkpoint show");
  PathFlags flags;
  add_path(app, flags);
  app.add_flag("--json", flags.json, "write JSON");
  app.add_flag("--config", flags.config, "print only the configuration of the run, as TOML");
  if (const auto done = parse(app, arguments)) return *done;
  check_path(flags, "show");
  const std::string path = find_checkpoint(flags.path);
  const Checkpoint checkpoint(path);
  if (flags.config) {
    data_out() << visible_lines(state_of(checkpoint.index(), "config"));
  } else if (flags.json) {
    Json shown = json_of(path, checkpoint.index());
    shown["state"] = checkpoint.index().state;
    shown["tensors"] = tensors_json(checkpoint.index());
    data_out() << json_text(shown, 2) << '\n';
  } else {
    write_state(checkpoint);
    write_tensors(checkpoint);
    std::cout << '\n'
              << visible(path) << ": " << checkpoint.index().tensors.size() << " tensors, "
              << bytes_text(checkpoint.index().total_bytes()) << " in "
              << checkpoint.index().files.size() << " files\n";
  }
  return kOk;
}

int checkpoint_verify(const std::vector<std::string>& arguments) {
  CLI::App app("Reads every byte of a checkpoint, or of all of a run, and compares checksums.",
               "tessera checkpoint verify");
  PathFlags flags;
  add_path(app, flags);
  if (const auto done = parse(app, arguments)) return *done;
  check_path(flags, "verify");
  for (const std::string& path : checkpoints_of(flags.path)) {
    const Checkpoint checkpoint(path);
    verify_files(checkpoint);
    std::cout << visible(path) << " is whole: " << checkpoint.index().tensors.size() << " tensors, "
              << bytes_text(checkpoint.index().total_bytes()) << "\n";
  }
  return kOk;
}

}  // namespace tessera::cli
