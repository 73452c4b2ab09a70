#include "cli/train/flags.h"

#include <CLI/CLI.hpp>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/run/resume.h"

namespace tessera::cli {
namespace {

using Assignments = std::vector<ConfigAssignment>;

constexpr const char* kFooter =
    "Every key of the configuration can be set with --section.key=value; lists use commas.\n"
    "--print-config prints all keys with their meanings. Later places override earlier ones:\n"
    "preset, --config FILE, the flags above, --section.key=value.\n";

std::string hint(const bool*) {
  return "";
}
std::string hint(const int64_t*) {
  return "N";
}
std::string hint(const double*) {
  return "X";
}
std::string hint(const std::string*) {
  return "TEXT";
}
template <class Element>
std::string hint(const std::vector<Element>*) {
  return "A,B,…";
}

std::string type_hint(const ConfigField& field) {
  if (field.choices != nullptr) return join(field.choices(), "|");
  TrainConfig any;
  return std::visit([](const auto* target) { return hint(target); }, field.target(any));
}

bool is_switch(const ConfigField& field) {
  TrainConfig any;
  return std::holds_alternative<bool*>(field.target(any));
}

// `field` has static lifetime.
CLI::Option* add_value(CLI::App& app, const std::string& flag, const ConfigField& field,
                       Assignments& to) {
  const auto store = [flag, &field, &to](const std::string& text) {
    try {
      to.push_back({&field, parse_value(field, text), flag, text});
    } catch (const ConfigError& error) {
      throw ConfigError(concat(flag, ": ", error.what()));
    }
  };
  return app.add_option_function<std::string>(flag, store, std::string(field.help))
      ->type_name(type_hint(field));
}

void add_switch(CLI::App& app, std::string_view flag, const ConfigField& field, const char* value,
                const std::string& help, Assignments& to) {
  const auto store = [flag = std::string(flag), &field, value, &to] {
    to.push_back({&field, parse_value(field, value), flag});
  };
  app.add_flag_callback(std::string(flag), store, help);
}

void add_field(CLI::App& app, const ConfigField& field, ConfigLayers& layers) {
  if (!field.flag.empty() && is_switch(field)) {
    add_switch(app, field.flag, field, "true", std::string(field.help), layers.flags);
  } else if (!field.flag.empty()) {
    add_value(app, std::string(field.flag), field, layers.flags);
  }
  if (!field.off_flag.empty()) {
    const char* const off = is_switch(field) ? "false" : "0";
    add_switch(app, field.off_flag, field, off,
               concat(field.name(), " = ", off, " (", field.help, ")"), layers.flags);
  }
  add_value(app, "--" + field.name(), field, layers.overrides)->group("");
}

}  // namespace

void add_train_flags(CLI::App& app, TrainFlags& flags) {
  app.add_option("--config", flags.config_file, "read keys from this TOML file")->type_name("FILE");
  app.add_flag("--print-config", flags.print_config, "print all keys and values, and do not train");
  add_config_flags(app, flags.layers, [](const ConfigField&) { return true; });
  app.footer(kFooter);
}

void add_config_flags(CLI::App& app, ConfigLayers& layers, bool (*wanted)(const ConfigField&)) {
  for (const ConfigField& field : config_fields()) {
    if (wanted(field)) add_field(app, field, layers);
  }
}

TrainConfig TrainFlags::config() const {
  ConfigLayers all = layers;
  if (config_file) all.file = read_config_file(*config_file);
  return resolve(with_stored_config(std::move(all)));
}

}  // namespace tessera::cli
