#include "tessera/plan/nccl_options.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/base/read_file.h"

namespace tessera {
namespace {

std::span<const std::string> keys() {
  static const std::array<std::string, 5> kKeys{"is_high_priority_stream", "cga_cluster_size",
                                                "min_ctas", "max_ctas", "net_name"};
  return kKeys;
}

void check_name(std::string_view what, const std::string& name,
                std::span<const std::string> known) {
  TSR_CHECK(std::ranges::find(known, name) != known.end(), what, " '", name,
            "' is unknown; known are ", join(known, ", "), did_you_mean(name, known));
}

bool to_bool(std::string_view key, const std::string& text) {
  bool value = false;
  TSR_CHECK(YAML::convert<bool>::decode(YAML::Node(text), value), key, " '", text,
            "' is neither true nor false");
  return value;
}

struct Limits {
  int least;
  int most = std::numeric_limits<int>::max();
};

int to_int(std::string_view key, const std::string& text, Limits limits) {
  const std::optional<int64_t> value = to_integer(text);
  TSR_CHECK(value && limits.least <= *value && *value <= limits.most, key, " '", text,
            "' is not a whole number from ", limits.least, " to ", limits.most);
  return static_cast<int>(*value);
}

std::string to_net_name(const std::string& text) {
  const std::string lower = to_lower(text);
  TSR_CHECK(lower == "ib" || lower == "socket", "net_name '", text,
            "' is not supported; choose IB or socket");
  return text;
}

// The text of a scalar; refuses a list or a mapping.
std::string scalar(std::string_view what, const YAML::Node& node) {
  TSR_CHECK(node.IsScalar(), what, " is not a scalar; write a name, a number, true or false");
  return node.Scalar();
}

// `at` is set to the place that an error is about, here and below.
NcclOptions parse_section(const std::string& name, const YAML::Node& section, YAML::Mark& at) {
  TSR_CHECK(section.IsMap(), "section '", name, "' holds no options; give at least one of ",
            join(keys(), ", "), " or leave it out");
  const YAML::Mark begin = at;
  NcclOptions options;
  std::set<std::string> seen;
  for (const auto& entry : section) {
    at = entry.first.Mark();
    const std::string key = scalar("a key", entry.first);
    TSR_CHECK(seen.insert(key).second, "key '", key, "' appears twice in section '", name, "'");
    set_nccl_option(options, key, scalar(key, entry.second));
  }
  at = begin;
  const int most = options.max_ctas.value_or(std::numeric_limits<int>::max());
  TSR_CHECK(options.min_ctas.value_or(0) <= most, "section '", name, "' has min_ctas ",
            options.min_ctas.value_or(0), ", above max_ctas ", most,
            "; choose min_ctas ≤ max_ctas");
  return options;
}

// Ignores all events.
class IgnoreEvents final : public YAML::EventHandler {
  using Mark = YAML::Mark;
  using Anchor = YAML::anchor_t;
  using Style = YAML::EmitterStyle::value;
  using Text = std::string;

  void OnDocumentStart(const Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const Mark&, Anchor) override {}
  void OnAlias(const Mark&, Anchor) override {}
  void OnScalar(const Mark&, const Text&, Anchor, const Text&) override {}
  void OnSequenceStart(const Mark&, const Text&, Anchor, Style) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const Mark&, const Text&, Anchor, Style) override {}
  void OnMapEnd() override {}
};

// YAML::Load ignores all documents after the first; YAML::LoadAll never ends on texts such as ",a".
bool is_one_document(const std::string& yaml) {
  std::istringstream text(yaml);
  YAML::Parser parser(text);
  IgnoreEvents ignore;
  return parser.HandleNextDocument(ignore) && !parser.HandleNextDocument(ignore);
}

NcclConfig parse_sections(const std::string& yaml, YAML::Mark& at) {
  const YAML::Node document = YAML::Load(yaml);
  TSR_CHECK(document.IsMap() && is_one_document(yaml),
            "expected a mapping from kinds of groups to options; write lines such as "
            "'tp: {max_ctas: 16}', or give no file");
  NcclConfig config;
  for (const auto& entry : document) {
    at = entry.first.Mark();
    const std::string name = scalar("a section's name", entry.first);
    check_name("section", name, nccl_sections());
    TSR_CHECK(!config.contains(name), "section '", name, "' appears twice");
    config[name] = parse_section(name, entry.second, at);
  }
  return config;
}

std::string located(const std::string& source, const YAML::Mark& at, const std::string& message) {
  return concat(source, ", line ", at.line + 1, ": ", message);
}

}  // namespace

std::span<const std::string> nccl_sections() {
  static const std::array<std::string, 21> kSections{
      "dp_cp",       "intra_dp_cp", "dp",
      "cp",          "hcp",         "mp",
      "tp",          "pp",          "embd",
      "pos_embd",    "tp_dp_cp",    "tp_dp",
      "tp_cp",       "ep",          "ep_tp",
      "tp_ep_mp",    "tp_ep_pp",    "ep_dp",
      "intra_ep_dp", "inter_ep_dp", "intra_dist_opt_instance"};
  return kSections;
}

void set_nccl_option(NcclOptions& options, std::string_view key, const std::string& value) {
  const std::string name(key);
  check_name("NCCL option", name, keys());
  if (name == "is_high_priority_stream") options.high_priority_stream = to_bool(key, value);
  if (name == "cga_cluster_size") options.cga_cluster_size = to_int(key, value, {0, 8});
  if (name == "min_ctas") options.min_ctas = to_int(key, value, {1});
  if (name == "max_ctas") options.max_ctas = to_int(key, value, {1});
  if (name == "net_name") options.net_name = to_net_name(value);
}

NcclConfig parse_nccl_config(const std::string& yaml, const std::string& source) {
  YAML::Mark at;
  try {
    return parse_sections(yaml, at);
  } catch (const YAML::Exception& error) {
    throw ConfigError(located(source, error.mark, concat("broken YAML: ", error.msg)));
  } catch (const ConfigError& error) {
    throw ConfigError(located(source, at, error.what()));
  }
}

NcclConfig read_nccl_config(const std::string& path) {
  constexpr size_t kMost = size_t{1} << 20;  // Bytes; a full file has 21 sections of a few lines.
  std::string yaml;
  try {
    yaml = read_file(path, kMost);
  } catch (const Error& error) {
    throw ConfigError(
        concat("the NCCL options: ", error.what(), "; give an existing file, or none"));
  }
  TSR_CHECK(yaml.size() <= kMost, path,
            ", the NCCL options, is larger than 1 MiB; is this the right file?");
  return parse_nccl_config(yaml, path);
}

void set_high_priority(NcclConfig& config, std::span<const std::string> sections) {
  for (const std::string& section : sections) {
    check_name("high-priority group", section, nccl_sections());
    config[section].high_priority_stream = true;
  }
}

}  // namespace tessera
