#pragma once

#include <optional>
#include <string>

#include "cli/app.h"
#include "tessera/config/layers.h"

namespace tessera::cli {

/// The flags of `tessera train`: a file, short flags and --section.key=value.
///
///   TrainFlags flags;
///   add_train_flags(app, flags);
///   if (const auto done = parse(app, arguments)) return *done;
///   const TrainConfig config = flags.config();
struct TrainFlags {
  std::optional<std::string> config_file;  // --config
  bool print_config = false;               // --print-config
  ConfigLayers layers{};                   // From the command line.

  /// The file and all flags as one checked config; reads the file. If they resume a run, its
  /// configuration comes first.
  TrainConfig config() const;
};

void add_train_flags(CLI::App& app, TrainFlags& flags);

/// The flags of some keys of the configuration, for other verbs.
void add_config_flags(CLI::App& app, ConfigLayers& layers, bool (*wanted)(const ConfigField&));

}  // namespace tessera::cli
