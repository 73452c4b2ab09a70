// The only file that includes toml++, which takes seconds to compile.

// toml++ asserts conditions that broken files such as "[^]" violate (its issue 294); with NDEBUG,
// clang assumes them. Without the assertions it refuses such files properly.
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>
#include <algorithm>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/config/layers.h"
#include "tessera/format/mapped_file.h"

namespace tessera {
namespace {

// In broken files, toml++ 3.3 has undefined behaviour for some non-ASCII characters. So it gets
// them as "~C3", and '~' itself as "~7E", which are plain text in quotes and comments of any kind.
constexpr std::string_view kDigits = "0123456789ABCDEF";

std::string hex_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && c != '~') {
      out += c;
    } else {
      out += {'~', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return out;
}

std::string hex_unescaped(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    if (text[at] != '~' || at + 2 >= text.size()) continue;
    const size_t high = kDigits.find(text[at + 1]);
    const size_t low = kDigits.find(text[at + 2]);
    if (high == std::string_view::npos || low == std::string_view::npos) continue;
    out.back() = static_cast<char>(high * 16 + low);
    at += 2;
  }
  return out;
}

// Some editors write a UTF-8 byte order mark.
std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.substr(text.starts_with(kMark) ? kMark.size() : 0);
}

// A line of the file, for messages.
struct Place {
  std::string_view origin;
  toml::source_index line = 0;

  std::string text() const { return concat(origin, ", line ", line); }
};

[[noreturn]] void refuse(const Place& place, const std::string& message) {
  throw ConfigError(concat(place.text(), ": ", message));
}

[[noreturn]] void refuse_type(const toml::node& node, const ConfigField& field,
                              std::string_view origin) {
  std::ostringstream type;
  type << node.type();
  refuse({origin, node.source().begin.line},
         concat(field.name(), " is of type ", type.str(), "; it must be ", type_name(field)));
}

bool read_into(bool& value, const toml::node& node) {
  if (!node.is_boolean()) return false;
  value = node.as_boolean()->get();
  return true;
}

bool read_into(int64_t& value, const toml::node& node) {
  if (!node.is_integer()) return false;
  value = node.as_integer()->get();
  return true;
}

bool read_into(double& value, const toml::node& node) {
  if (node.is_integer()) value = static_cast<double>(node.as_integer()->get());
  if (node.is_floating_point()) value = node.as_floating_point()->get();
  return node.is_number();
}

bool read_into(std::string& value, const toml::node& node) {
  if (!node.is_string()) return false;
  value = hex_unescaped(node.as_string()->get());
  return true;
}

// A single value counts as a list of one.
template <class Element>
bool read_into(std::vector<Element>& values, const toml::node& node) {
  values.clear();
  if (!node.is_array()) return read_into(values.emplace_back(), node);
  for (const toml::node& element : *node.as_array()) {
    if (!read_into(values.emplace_back(), element)) return false;
  }
  return true;
}

ConfigValue value_of(const toml::node& node, const ConfigField& field, std::string_view origin) {
  TrainConfig any;
  const auto read = [&](auto* target) -> ConfigValue {
    if (!read_into(*target, node)) refuse_type(node, field, origin);
    return *target;
  };
  return std::visit(read, field.target(any));
}

std::vector<std::string> keys_of(std::string_view section) {
  std::vector<std::string> keys;
  for (const ConfigField& field : config_fields()) {
    if (field.section == section) keys.emplace_back(field.key);
  }
  return keys;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const ConfigField& field : config_fields()) {
    if (names.empty() || names.back() != field.section) names.emplace_back(field.section);
  }
  return names;
}

void check_known(const toml::key& key, std::string_view section, std::string_view origin,
                 const std::vector<std::string>& known) {
  const std::string name = hex_unescaped(key.str());
  if (std::ranges::find(known, name) != known.end()) return;
  const std::string what = section.empty()
                               ? concat("section '", visible(name), "'")
                               : concat("key '", visible(name), "' of section ", section);
  refuse({origin, key.source().begin.line},
         concat(what, " is unknown; known are ", join(known, ", "), did_you_mean(name, known)));
}

void append_section(std::vector<ConfigAssignment>& to, std::string_view section,
                    const toml::table& table, std::string_view origin) {
  for (const auto& [key, node] : table) {
    check_known(key, section, origin, keys_of(section));
    const ConfigField& field = config_field(concat(section, ".", key.str()));
    const Place place{origin, key.source().begin.line};
    const auto* const whole = node.as_integer();  // Also if the key takes any number.
    to.push_back({&field, value_of(node, field, origin), place.text(),
                  whole == nullptr ? "" : std::to_string(whole->get())});
  }
}

std::vector<ConfigAssignment> assignments_of(const toml::table& document, std::string_view origin) {
  std::vector<ConfigAssignment> all;
  for (const auto& [key, node] : document) {
    check_known(key, "", origin, sections());
    const toml::table* const table = node.as_table();
    if (table == nullptr) {
      refuse({origin, key.source().begin.line},
             concat("'", key.str(), "' is a section; write [", key.str(), "] and its keys below"));
    }
    append_section(all, key.str(), *table, origin);
  }
  return all;
}

}  // namespace

std::vector<ConfigAssignment> parse_config_toml(std::string_view text, const std::string& origin) {
  try {
    return assignments_of(toml::parse(hex_escaped(without_mark(text))), origin);
  } catch (const toml::parse_error& error) {
    refuse({origin, error.source().begin.line},
           concat("broken TOML: ", visible(hex_unescaped(error.description()))));
  }
}

std::vector<ConfigAssignment> read_config_file(const std::string& path) {
  const MappedFile file(path);
  const auto bytes = file.bytes();
  return parse_config_toml({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

}  // namespace tessera
