#pragma once

#include <optional>
#include <string>

#include "cli/app.h"
#include "tessera/config/layers.h"

namespace tessera::cli {

/// What `tessera train` was told: a file, short flags and --section.key=value.
///
///   TrainFlags flags;
///   add_train_flags(app, flags);
///   if (const auto done = parse(app, arguments)) return *done;
///   const TrainConfig config = flags.config();
struct TrainFlags {
  std::optional<std::string> config_file;  // --config
  bool print_config = false;               // --print-config
  ConfigLayers layers{};                   // The command line's.

  /// All of it as one config, checked; reads the file.
  TrainConfig config() const;
};

void add_train_flags(CLI::App& app, TrainFlags& flags);

}  // namespace tessera::cli
