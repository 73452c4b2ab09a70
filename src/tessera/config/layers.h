#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/config/fields.h"

namespace tessera TSR_API {

/// A value for a key, and who gave it: "run.toml, line 3", "--lr".
struct ConfigAssignment {
  const ConfigField* field = nullptr;
  ConfigValue value{};
  std::string origin{};
  std::string given{};  // As it was written; "" where nobody wrote it so.

  /// The value for people: as it was written, or as TOML writes it.
  std::string text() const { return given.empty() ? to_toml(value) : given; }
};

/// All that a run is told, weakest first: preset < file < flags < overrides.
struct ConfigLayers {
  std::vector<ConfigAssignment> file{};
  std::vector<ConfigAssignment> flags{};      // --lr 0.1
  std::vector<ConfigAssignment> overrides{};  // --optim.lr=0.1
};

/// The keys of a TOML text. ConfigError with origin and line for what is no TOML, an unknown
/// section or key (with the nearest match), or a value of another type.
std::vector<ConfigAssignment> parse_config_toml(std::string_view text, const std::string& origin);

/// The same of a file; DataError where it cannot be read.
std::vector<ConfigAssignment> read_config_file(const std::string& path);

/// The config that follows, checked. A model that comes from a folder is trained as it is told and
/// no further: constant learning rate, no warm-up, clipping, validation or saving unless a key asks
/// for them. ConfigError where what was given contradicts itself.
TrainConfig resolve(const ConfigLayers& layers);

}  // namespace tessera
