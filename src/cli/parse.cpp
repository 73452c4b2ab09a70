#include "cli/parse.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <limits>
#include <set>

#include "cli/help.h"
#include "cli/terminal.h"
#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/base/error_words.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/launch/worker.h"

namespace tessera::cli {
namespace {

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Explains the first argument that no flag accepts.
std::string explain_extra(const CLI::App& app) {
  const std::vector<std::string> extra = app.remaining();
  const std::string word = extra.empty() ? "" : extra.front().substr(0, extra.front().find('='));
  const std::string kind = word.starts_with("-") ? "unknown flag '" : "unexpected argument '";
  return concat(kind, word, "'", did_you_mean(word, flag_names(app)));
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

std::string needs_value(const std::string& name, const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return concat(name, " needs a value", type.empty() ? "" : concat(": ", name, " ", type));
}

// Explains the first `--switch=value` or `--flag=`, for which CLI11 would take the next word.
std::string explain_equals(const CLI::App& app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos) continue;
    const std::string name = word.substr(0, equals);
    const std::string value = word.substr(equals + 1);
    const CLI::Option* const option = app.get_option_no_throw(name);
    if (option == nullptr) continue;
    if (!takes_value(*option)) {
      return concat(name, " takes no value, but '", value, "' is given");
    }
    if (value.empty()) return needs_value(name, *option);
  }
  return "";
}

// Explains the first flag given twice, by the name that the user wrote; or "".
std::string explain_repeated(const CLI::App& app, const std::vector<std::string>& words) {
  std::set<const CLI::Option*> seen;
  for (const std::string& word : words) {
    const std::string name = word.substr(0, word.find('='));
    const CLI::Option* const option =
        name.starts_with("-") ? app.get_option_no_throw(name) : nullptr;
    if (option == nullptr || seen.insert(option).second || option->results().size() < 2) continue;
    if (option->get_multi_option_policy() != CLI::MultiOptionPolicy::Throw) continue;
    return concat(name, " is given twice; give it once");
  }
  return "";
}

// Explains a flag at the end that lacks its value; or "".
std::string explain_missing(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty() || !words.back().starts_with("-")) return "";
  const CLI::Option* const option = app.get_option_no_throw(words.back());
  return option != nullptr && takes_value(*option) ? needs_value(words.back(), *option) : "";
}

// CLI11 names only flags that its help shows.
std::string explain_misuse(const CLI::App& app, const std::vector<std::string>& words,
                           const CLI::ParseError& error) {
  for (const auto explain : {explain_repeated, explain_missing}) {
    const std::string found = explain(app, words);
    if (!found.empty()) return found;
  }
  return error.what();
}

// Programs that read the help get whole lines.
size_t help_width() {
  constexpr int64_t kWidest = 120;
  if (isatty(STDOUT_FILENO) == 0) return std::numeric_limits<size_t>::max();
  return static_cast<size_t>(std::min(terminal_width(), kWidest));
}

// If a launcher started this rank, it shows the error file, once for all ranks.
int explain(const std::exception& error, int code) {
  const std::string words = error_words(error);
  if (!report_error(words) || wants_backtrace()) {
    std::cerr << "tessera: " << visible_lines(words) << "\n";
  }
  return code;
}

}  // namespace

void add_integer(CLI::App& app, const std::string& flag, std::optional<int64_t>& value,
                 const std::string& help) {
  const auto store = [flag, &value](const std::string& text) {
    value = checked_integer(text, flag);
  };
  app.add_option_function<std::string>(flag, store, help)->type_name("N");
}

void add_choice(CLI::App& app, const std::string& flag, std::string& value,
                const std::vector<std::string>& choices, const std::string& help) {
  const auto store = [flag, choices, &value](const std::string& text) {
    TSR_CHECK(std::ranges::find(choices, text) != choices.end(), flag, " is '", text,
              "'; choose one of ", join(choices, ", "), did_you_mean(text, choices));
    value = text;
  };
  app.add_option_function<std::string>(flag, store, help)->type_name(join(choices, "|"));
}

void add_color(CLI::App& app, std::string& value) {
  add_choice(app, "--color", value, {"auto", "always", "never"}, "colors in the output (auto)");
}

std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments) {
  app.allow_extras();
  app.get_formatter()->column_width(kHelpColumn);
  const std::vector<std::string> words = arguments;
  std::ranges::reverse(arguments);  // CLI11 reads the vector from its end.
  std::string problem = explain_equals(app, words);
  try {
    if (problem.empty()) {
      app.parse(std::move(arguments));
      if (app.remaining().empty()) return std::nullopt;
      problem = explain_extra(app);
    }
  } catch (const CLI::Success&) {
    std::cout << folded_help(app.help(), help_width());
    return kOk;
  } catch (const CLI::ParseError& error) {
    problem = explain_misuse(app, words, error);
  }
  std::cerr << app.get_name() << ": " << visible_lines(problem) << "\n`" << app.get_name()
            << " --help` lists the flags.\n";
  return kBadUsage;
}

int guarded(const std::function<int()>& body) {
  // Turns a closed pipe and a file-size limit into errors with a message instead of a fatal signal.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const PlainStreams plain;
  try {
    const int code = body();
    std::cout.flush();
    data_out().flush();
    if (std::cout && data_out()) return code;
    throw DataError("cannot write the output; is the disk full or the reader gone?");
  } catch (const ConfigError& error) {
    return explain(error, kBadUsage);
  } catch (const std::exception& error) {
    return explain(error, kFailed);
  }
}

}  // namespace tessera::cli
