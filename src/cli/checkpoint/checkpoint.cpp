// `tessera checkpoint`: lists, shows, verifies, compares and converts checkpoints.
#include <array>
#include <filesystem>
#include <iostream>

#include "cli/checkpoint/actions.h"
#include "cli/parse.h"
#include "cli/verbs.h"
#include "tessera/base/check.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"

namespace tessera::cli {
namespace {

struct Action {
  std::string_view name;
  std::string_view summary;
  VerbFunction run;
};

constexpr std::array kActions{
    Action{"ls", "list the checkpoints of a run", checkpoint_ls},
    Action{"show", "show the tensors and the state of a checkpoint", checkpoint_show},
    Action{"verify", "read every byte and compare checksums", checkpoint_verify},
    Action{"diff", "say which tensors of two checkpoints differ, and by how much", checkpoint_diff},
    Action{"reshard", "write a checkpoint again, in the files of another number of ranks",
           checkpoint_reshard},
    Action{"import", "make a checkpoint from a Hugging Face folder or one of PyTorch",
           checkpoint_import},
};

std::string help() {
  std::string text =
      "Works on checkpoints of `tessera train --save-every N`, without LibTorch.\n\n"
      "Usage: tessera checkpoint <action> …\n\nActions:\n";
  for (const Action& action : kActions) {
    std::string name(action.name);
    name.resize(10, ' ');
    text += concat("  ", name, action.summary, "\n");
  }
  return text +
         "\nA path is a checkpoint, a run directory or its checkpoints folder.\n"
         "`tessera checkpoint <action> --help` lists an action's flags.\n";
}

}  // namespace

std::vector<std::string> checkpoints_of(const std::string& path) {
  if (is_checkpoint(path)) return {path};
  for (const auto& folder :
       {std::filesystem::path(path) / kCheckpointsFolder, std::filesystem::path(path)}) {
    const CheckpointFolder all(folder);
    std::vector<std::string> found;
    for (const int64_t step : all.steps()) found.push_back(all.path_of(step));
    if (!found.empty()) return found;
  }
  return {find_checkpoint(path)};  // Says that there is none.
}

int run_checkpoint(const std::vector<std::string>& arguments) {
  const std::string word = arguments.empty() ? "" : arguments.front();
  if (word == "--help" || word == "-h") {
    std::cout << help();
    return kOk;
  }
  for (const Action& action : kActions) {
    if (action.name == word) return action.run({arguments.begin() + 1, arguments.end()});
  }
  std::vector<std::string> names;
  for (const Action& action : kActions) names.emplace_back(action.name);
  TSR_CHECK(!word.empty(), "an action is required: tessera checkpoint ", join(names, "|"));
  throw ConfigError(concat("unknown action '", word, "'", did_you_mean(word, names), "; there are ",
                           join(names, ", ")));
}

}  // namespace tessera::cli
