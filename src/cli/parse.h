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
inline constexpr int kFailed = 1;    // The work failed.
inline constexpr int kBadUsage = 2;  // A flag or a value that the caller chose is wrong.

/// Reads the arguments into the app's flags. A result means that the verb is done with this exit
/// code: help was printed, or the arguments were wrong and the message named the nearest flag.
std::optional<int> parse(CLI::App& app, std::vector<std::string> arguments);

/// A flag that takes a whole number; anything else raises ConfigError.
void add_integer(CLI::App& app, const std::string& flag, std::optional<int64_t>& value,
                 const std::string& help);

/// A flag that takes one of these words; anything else raises ConfigError.
void add_choice(CLI::App& app, const std::string& flag, std::string& value,
                const std::vector<std::string>& choices, const std::string& help);

/// --color auto|always|never.
void add_color(CLI::App& app, std::string& value);

/// Runs `body` and turns what it throws into a message on stderr and an exit code.
int guarded(const std::function<int()>& body);

}  // namespace tessera::cli
