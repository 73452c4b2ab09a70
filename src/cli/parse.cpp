#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "tessera/base/checked.h"
#include "tessera/base/error.h"
#include "tessera/base/error_words.h"
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

// The first argument that no flag takes.
std::string explain_extra(const CLI::App& app) {
  const std::vector<std::string> extra = app.remaining();
  const std::string word = extra.empty() ? "" : extra.front().substr(0, extra.front().find('='));
  const std::string kind = word.starts_with("-") ? "unknown flag '" : "unexpected argument '";
  return concat(kind, word, "'", did_you_mean(word, flag_names(app)));
}

// The launcher of a rank shows what is in its error file, once for all ranks.
int explain(const std::exception& error, int code) {
  const std::string words = error_words(error);
  if (!report_error(words) || wants_backtrace()) std::cerr << "tessera: " << words << "\n";
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

std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments) {
  app.allow_extras();
  app.get_formatter()->column_width(34);
  std::ranges::reverse(arguments);  // CLI11 reads a vector from its end.
  try {
    app.parse(std::move(arguments));
    if (app.remaining().empty()) return std::nullopt;
    std::cerr << app.get_name() << ": " << explain_extra(app) << "\n";
  } catch (const CLI::Success&) {
    std::cout << app.help();
    return kOk;
  } catch (const CLI::ParseError& error) {
    std::cerr << app.get_name() << ": " << error.what() << "\n";
  }
  std::cerr << "`" << app.get_name() << " --help` lists the flags.\n";
  return kBadUsage;
}

int guarded(const std::function<int()>& body) {
  try {
    const int code = body();
    std::cout.flush();
    if (std::cout) return code;
    throw DataError("cannot write the output; is the disk full or the reader gone?");
  } catch (const ConfigError& error) {
    return explain(error, kBadUsage);
  } catch (const std::exception& error) {
    return explain(error, kFailed);
  }
}

}  // namespace tessera::cli
