#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

/// A verb takes the arguments after its name and returns the exit code.
using VerbFunction = int (*)(const std::vector<std::string>& arguments);

struct Verb {
  std::string_view name;
  std::string_view summary;
  VerbFunction run = nullptr;  // Null for a verb that needs LibTorch: tessera-torch runs it.
};

/// Every verb of the command line, in both programs.
std::vector<std::string> verb_names();
const Verb* find_verb(std::string_view name);

/// What `tessera --help` prints. Without LibTorch it marks the verbs that need it.
std::string help_text(bool has_torch);

/// Each is implemented in its verb's folder.
int run_ranks(const std::vector<std::string>& arguments);
int run_run(const std::vector<std::string>& arguments);
int run_schedule(const std::vector<std::string>& arguments);
int run_trace(const std::vector<std::string>& arguments);
int run_inspect(const std::vector<std::string>& arguments);
int run_export(const std::vector<std::string>& arguments);
int run_tokenize(const std::vector<std::string>& arguments);
int run_checkpoint(const std::vector<std::string>& arguments);
int run_watch(const std::vector<std::string>& arguments);
int run_generate(const std::vector<std::string>& arguments);
int run_train(const std::vector<std::string>& arguments);
int run_eval(const std::vector<std::string>& arguments);
int run_env(const std::vector<std::string>& arguments);

}  // namespace tessera::cli
