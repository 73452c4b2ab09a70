#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/config/fields.h"

namespace tessera TSR_API {

/// A value for a key.
struct ConfigAssignment {
  const ConfigField* field = nullptr;  // One of config_fields().
  ConfigValue value{};                 // Of the field's type.
  std::string origin{};                // For messages: "run.toml, line 3", "--lr".
  std::string given{};                 // As written; "" if the value was not text.

  /// The value as written, or in TOML syntax.
  std::string text() const { return given.empty() ? to_toml(value) : given; }
};

/// All settings of a run; later layers override earlier ones: preset < file < flags < overrides.
struct ConfigLayers {
  std::vector<ConfigAssignment> file{};       // lr = 0.1 in a TOML file.
  std::vector<ConfigAssignment> flags{};      // --lr 0.1
  std::vector<ConfigAssignment> overrides{};  // --optim.lr=0.1
};

/// The keys in a TOML text. ConfigError with origin and line for invalid TOML, an unknown section
/// or key (with the nearest match), or a value of the wrong type.
std::vector<ConfigAssignment> parse_config_toml(std::string_view text, const std::string& origin);

/// The keys in a TOML file; DataError if it cannot be read.
std::vector<ConfigAssignment> read_config_file(const std::string& path);

/// The resolved and checked config. A model from a folder is fine-tuned with plain defaults:
/// constant learning rate, no warm-up, clipping, validation or saving unless a key asks for them.
/// ConfigError if settings contradict each other.
TrainConfig resolve(const ConfigLayers& layers);

}  // namespace tessera
