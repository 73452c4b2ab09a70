// `tessera`: runs the verbs that do not need LibTorch; `tessera-torch` beside it runs the others.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "cli/called_as.h"
#include "cli/parse.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "tessera/base/error.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera::cli {
namespace {

int explain_unknown(std::string_view word) {
  const bool flag = word.starts_with("-");
  std::vector<std::string> names = verb_names();
  // The user may have meant a verb of the wrapper script.
  const char* wrapper_verbs = std::getenv("TESSERA_WRAPPER_VERBS");
  for (const auto name : split(wrapper_verbs == nullptr ? "" : wrapper_verbs, ' ')) {
    if (!name.empty()) names.emplace_back(name);
  }
  if (flag) names = {"--help", "--version"};
  std::cerr << "tessera: unknown " << (flag ? "flag" : "verb") << " '" << visible(word) << "'"
            << did_you_mean(word, names) << "\n`" << called_as() << " --help` lists the verbs.\n";
  return kBadUsage;
}

// Builds and packages without LibTorch do not have it.
std::filesystem::path torch_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tessera-torch";
}

// Replaces this process with `tessera-torch`, with the same arguments.
int exec_torch(char** argv) {
  const std::filesystem::path program = torch_program();
  execv(program.c_str(), argv);
  throw DataError(concat("the verb '", argv[1], "' needs LibTorch, but ", program.string(),
                         " cannot be started (", std::strerror(errno),
                         "); in a checkout of Tessera, ./tessera ", argv[1],
                         " builds with LibTorch and runs it (with cmake: -DTESSERA_TORCH=ON)"));
}

int run(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << help_text(std::filesystem::exists(torch_program()));
    return kBadUsage;
  }
  const std::string word = argv[1];
  if (word == "--help" || word == "-h" || word == "help") {
    std::cout << help_text(std::filesystem::exists(torch_program()));
    return kOk;
  }
  if (word == "--version") {
    std::cout << version_text();
    return kOk;
  }
  // The wrapper script asks whether this verb needs LibTorch.
  if (word == "--needs-torch" && argc == 3) {
    const Verb* verb = find_verb(argv[2]);
    return verb != nullptr && verb->run == nullptr ? kOk : kFailed;
  }
  const Verb* verb = find_verb(word);
  if (verb == nullptr) return explain_unknown(word);
  if (verb->run == nullptr) return exec_torch(argv);
  return verb->run({argv + 2, argv + argc});
}

}  // namespace
}  // namespace tessera::cli

int main(int argc, char** argv) {
  return tessera::cli::guarded([&] { return tessera::cli::run(argc, argv); });
}
