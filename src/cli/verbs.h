#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

enum class Program { kCore, kTorch };

struct Verb {
  std::string_view name;
  std::string_view summary;
  Program program = Program::kCore;
};

/// Every verb of the command line, whichever program runs it.
std::span<const Verb> verbs();
std::vector<std::string> verb_names();
const Verb* find_verb(std::string_view name);

/// What `tessera --help` and `tessera --version` print.
std::string help_text();
std::string version_text();

/// What each verb's file defines: flags from `arguments` (without the verb), result as exit code.
int run_ranks(const std::vector<std::string>& arguments);
int run_run(const std::vector<std::string>& arguments);
int run_schedule(const std::vector<std::string>& arguments);
int run_trace(const std::vector<std::string>& arguments);
int run_inspect(const std::vector<std::string>& arguments);
int run_export(const std::vector<std::string>& arguments);
int run_train(const std::vector<std::string>& arguments);
int run_env(const std::vector<std::string>& arguments);

}  // namespace tessera::cli
