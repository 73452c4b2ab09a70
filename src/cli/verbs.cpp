#include "cli/verbs.h"

#include <algorithm>
#include <array>

#include "tessera/base/text.h"

namespace tessera::cli {
namespace {

constexpr std::array kVerbs{
    Verb{"train", "train a Llama; write metrics, a report and weights"},
    Verb{"watch", "show the report of a run in the browser, while the run goes on", run_watch},
    Verb{"export", "write the weights of a run or checkpoint as a Hugging Face folder", run_export},
    Verb{"checkpoint", "list, show, verify, compare and convert checkpoints", run_checkpoint},
    Verb{"generate", "continue prompts with a trained model"},
    Verb{"eval", "loss, perplexity and bits per byte of a model on texts or tokens"},
    Verb{"tokenize", "encode texts into a file of tokens to train on", run_tokenize},
    Verb{"ranks", "show how ranks form groups, without starting any process", run_ranks},
    Verb{"run", "start a program's ranks, watch them, restart them and stop them", run_run},
    Verb{"schedule", "show a pipeline schedule: verified, simulated, compared and drawn",
         run_schedule},
    Verb{"trace", "analyse flight-recorder dumps and write a trace", run_trace},
    Verb{"inspect", "list and check the tensors of a safetensors or .npy file, or of a folder",
         run_inspect},
    Verb{"env", "show the LibTorch, the back ends and the devices that this build uses"},
};

}  // namespace

std::vector<std::string> verb_names() {
  std::vector<std::string> names;
  for (const Verb& verb : kVerbs) names.emplace_back(verb.name);
  return names;
}

const Verb* find_verb(std::string_view name) {
  const auto at = std::ranges::find(kVerbs, name, &Verb::name);
  return at == kVerbs.end() ? nullptr : &*at;
}

std::string help_text(bool has_torch) {
  std::string text =
      "Tessera: N-D parallel training on LibTorch.\n\n"
      "Usage: tessera <verb> [flags]\n\nVerbs:\n";
  for (const Verb& verb : kVerbs) {
    std::string name(verb.name);
    name.resize(12, ' ');
    const bool works = has_torch || verb.run != nullptr;
    text += concat("  ", name, verb.summary, works ? "" : " (needs LibTorch)", "\n");
  }
  return text +
         "\n`tessera <verb> --help` lists a verb's flags; `tessera --version` the version.\n";
}

}  // namespace tessera::cli
