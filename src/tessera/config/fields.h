#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/config/train_config.h"

namespace tessera TSR_API {

/// The value of a key, of any type that keys have.
using ConfigValue =
    std::variant<bool, int64_t, double, std::string, std::vector<std::string>, std::vector<double>>;

/// Points at a key's value in a TrainConfig.
using ConfigTarget = std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*,
                                  std::vector<double>*>;

/// One key: reading, overriding, printing, help and the documents all use this entry.
struct ConfigField {
  std::string_view section{};                      // E.g. "optim".
  std::string_view key{};                          // E.g. "lr".
  ConfigTarget (*target)(TrainConfig&) = nullptr;  // Finds its value in a config.
  std::string_view help{};      // One line: for --help, printed configs and docs/configuration.md.
  std::string_view flag{};      // The short form on the command line.
  std::string_view off_flag{};  // The flag that sets it to false or 0.
  double least = std::numeric_limits<double>::lowest();  // Smallest number.
  double most = std::numeric_limits<double>::max();      // Largest number.
  std::vector<std::string> (*choices)() = nullptr;       // Allowed strings.
  std::string_view otherwise{};                          // The default, if it is not a constant.

  /// E.g. "optim.lr".
  std::string name() const;
};

/// Every key by section, in the order of TrainConfig's members.
std::span<const ConfigField> config_fields();

/// The field of a name such as "optim.lr", which must exist.
const ConfigField& config_field(std::string_view name);

/// The type of a key for messages: "a number from 0", "adamw or sgd", "a list of strings".
std::string type_name(const ConfigField& field);

/// The value of a key in `config`, or as parsed from a command-line argument (commas separate the
/// elements of a list). ConfigError if the text does not have the key's type.
ConfigValue value_of(const ConfigField& field, const TrainConfig& config);
/// The value that `text` means for the field; ConfigError names the field and what it accepts.
ConfigValue parse_value(const ConfigField& field, std::string_view text);

/// ConfigError if the value does not have the field's type or is outside its range or choices. The
/// message quotes `given`, the text as written, unless that is empty.
void assign(const ConfigField& field, const ConfigValue& value, TrainConfig& config,
            std::string_view given = "");

/// The value in TOML syntax: "a", 1.0, [1.0, 2.0].
std::string to_toml(const ConfigValue& value);

}  // namespace tessera
