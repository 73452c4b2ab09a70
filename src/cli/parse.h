#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"

namespace tessera::cli {

/// Exit codes of all verbs.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;    // The operation failed.
inline constexpr int kBadUsage = 2;  // A flag or value given by the user is wrong.

/// Parses the arguments into the app's flags. If it returns an exit code, the verb is done: it
/// printed the help, or the arguments were wrong and the message named the nearest flag.
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments);

/// A flag that takes an integer; anything else raises ConfigError.
void add_integer(CLI::App& app, const std::string& flag, std::optional<int64_t>& value,
                 const std::string& help);

/// A flag that takes one of these words; anything else raises ConfigError.
void add_choice(CLI::App& app, const std::string& flag, std::string& value,
                const std::vector<std::string>& choices, const std::string& help);

/// --color auto|always|never.
void add_color(CLI::App& app, std::string& value);

/// Runs `body` and turns exceptions into a message on stderr and an exit code.
int guarded(const std::function<int()>& body);

}  // namespace tessera::cli
