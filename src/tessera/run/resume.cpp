#include "tessera/run/resume.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/format/checkpoint/checkpoint.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/run/run_folder.h"

namespace tessera {
namespace {

using Assignments = std::vector<ConfigAssignment>;

std::vector<const ConfigAssignment*> all_of(const ConfigLayers& layers) {
  std::vector<const ConfigAssignment*> all;
  for (const Assignments* layer : {&layers.file, &layers.flags, &layers.overrides}) {
    for (const ConfigAssignment& one : *layer) all.push_back(&one);
  }
  return all;
}

template <class Value>
Value last_of(const ConfigLayers& layers, std::string_view name, Value otherwise) {
  for (const ConfigAssignment* one : all_of(layers)) {
    if (one->field->name() == name) otherwise = std::get<Value>(one->value);
  }
  return otherwise;
}

// The newest checkpoint's configuration, as assignments; none without a checkpoint.
Assignments stored_assignments(const std::string& run_dir) {
  const CheckpointFolder all(std::filesystem::path(run_dir) / kCheckpointsFolder);
  const auto step = all.newest();
  if (!step) return {};
  const Checkpoint checkpoint(all.path_of(*step));
  const auto config = checkpoint.index().state.find("config");
  if (config == checkpoint.index().state.end()) {
    throw DataError(concat(checkpoint.folder(), " holds no configuration; was it saved by ",
                           "tessera train? Give --init-from to start from its weights"));
  }
  return parse_config_toml(config->second, checkpoint.folder());
}

bool belongs_to_start(const ConfigField& field) {
  constexpr std::array kKeys{"dir", "overwrite", "resume", "resume_anyway"};
  return field.section == "run" && std::ranges::find(kKeys, field.key) != kKeys.end();
}

// Depends on the layout, as the default of run.record_every does.
bool belongs_to_layout(const ConfigField& field) {
  return field.section == "parallel" || field.name() == "run.record_every";
}

bool shapes_curve(const ConfigField& field, const TrainConfig& config) {
  constexpr std::array kOthers{
      "model.preset", "model.path",         "optim.accumulate", "optim.non_finite",
      "optim.spike",  "optim.spike_window", "optim.ema_decay",  "data.validation_share",
      "data.cache"};
  if (std::ranges::find(kOthers, field.name()) != kOthers.end()) return false;
  if (field.section == "model") return config.model.path.empty();
  constexpr std::array kOfTraining{"train.seed", "train.expert_capacity_factor",
                                   "train.token_drop_policy", "train.balancing",
                                   "train.z_loss_coef"};
  return field.section == "data" || field.section == "optim" ||
         std::ranges::find(kOfTraining, field.name()) != kOfTraining.end();
}

double held_out(const TrainConfig& config) {
  return config.train.validate_every == 0 ? 0 : config.data.validation_share;
}

// What differs between two runs and changes the curve.
std::vector<std::string> changes_of_curve(const TrainConfig& before, const TrainConfig& now) {
  std::vector<std::string> changes;
  for (const ConfigField& field : config_fields()) {
    if (!shapes_curve(field, before)) continue;
    const std::string was = to_toml(value_of(field, before));
    const std::string is = to_toml(value_of(field, now));
    if (was != is) changes.push_back(concat(field.name(), " was ", was, " and is ", is));
  }
  if (held_out(before) != held_out(now)) {
    changes.push_back(concat("the share of data held out for validation was ", held_out(before),
                             " and is ", held_out(now)));
  }
  return changes;
}

}  // namespace

ConfigLayers with_stored_config(ConfigLayers layers) {
  const auto dir = last_of<std::string>(layers, "run.dir", "");
  if (!last_of(layers, "run.resume", false) || dir.empty()) return layers;
  Assignments stored = stored_assignments(dir);
  const auto given = all_of(layers);
  const bool other_layout = std::ranges::any_of(
      given, [](const ConfigAssignment* one) { return one->field->section == "parallel"; });
  std::erase_if(stored, [&](const ConfigAssignment& one) {
    return belongs_to_start(*one.field) || (other_layout && belongs_to_layout(*one.field));
  });
  layers.file.insert(layers.file.begin(), stored.begin(), stored.end());
  return layers;
}

std::optional<TrainConfig> stored_config(const std::string& run_dir) {
  const Assignments stored = stored_assignments(run_dir);
  if (stored.empty()) return std::nullopt;
  return resolve({.file = stored});
}

std::optional<TrainConfig> find_run_config(const std::string& model) {
  const auto file = std::filesystem::path(model) / RunFolder::kConfig;
  if (std::filesystem::exists(file)) return resolve({.file = read_config_file(file)});
  if (!is_checkpoint(model)) return stored_config(model);
  const Checkpoint checkpoint(model);
  const auto config = checkpoint.index().state.find("config");
  if (config == checkpoint.index().state.end()) return std::nullopt;
  return resolve({.file = parse_config_toml(config->second, checkpoint.folder())});
}

TrainConfig restarted(TrainConfig config) {
  RunSection& run = config.run;
  TSR_CHECK(!run.dir.empty(),
            "a job with restarts needs --run-dir, where each attempt finds the checkpoints");
  const auto before = stored_config(run.dir);
  // A run that replaces another one may have failed before it removed that one.
  const bool ours = before && (!run.overwrite || changes_of_curve(*before, config).empty());
  run.resume = ours;
  run.overwrite = !ours;
  return config;
}

void check_same_curve(const TrainConfig& before, const TrainConfig& now) {
  const std::vector<std::string> changes = changes_of_curve(before, now);
  TSR_CHECK(changes.empty(), "the run to resume was another one: ", join(changes, "; "),
            ". Its curve would change; leave that out, or give --resume-anyway");
}

}  // namespace tessera
