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

/// A value of each type that a key may have.
using ConfigValue =
    std::variant<bool, int64_t, double, std::string, std::vector<std::string>, std::vector<double>>;

/// Where a key's value lies in a TrainConfig.
using ConfigTarget = std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*,
                                  std::vector<double>*>;

/// One key: all that reading, overriding, printing, help and documents know of it.
struct ConfigField {
  std::string_view section{};
  std::string_view key{};
  ConfigTarget (*target)(TrainConfig&) = nullptr;
  std::string_view help{};
  std::string_view flag{};      // Its short form on the command line,
  std::string_view off_flag{};  // and the one that switches it off: false or 0.
  double least = std::numeric_limits<double>::lowest();  // Numbers go from here
  double most = std::numeric_limits<double>::max();      // to here.
  std::vector<std::string> (*choices)() = nullptr;       // Texts are one of these.
  std::string_view otherwise{};  // What decides where the key is not given, if it is no constant.

  /// "optim.lr".
  std::string name() const;
};

/// Every key, section by section, in the order of TrainConfig's members.
std::span<const ConfigField> config_fields();

/// The field of "optim.lr"; it must exist.
const ConfigField& config_field(std::string_view name);

/// What a key takes, for people: "a number from 0", "adamw or sgd", "a list of texts".
std::string type_name(const ConfigField& field);

/// The value of a key; and a value that a command line gives as text (a list has commas between its
/// parts). ConfigError where the text is no such value.
ConfigValue value_of(const ConfigField& field, const TrainConfig& config);
ConfigValue parse_value(const ConfigField& field, std::string_view text);

/// ConfigError where the value is not of the field's type, range or choices; it shows the value as
/// it was `given`, where that is known.
void assign(const ConfigField& field, const ConfigValue& value, TrainConfig& config,
            std::string_view given = "");

/// As TOML writes it: "a", 1.0, [1.0, 2.0].
std::string to_toml(const ConfigValue& value);

}  // namespace tessera
