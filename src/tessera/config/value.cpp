#include <algorithm>
#include <array>
#include <charconv>

#include "tessera/base/check.h"
#include "tessera/config/fields.h"

namespace tessera {
namespace {

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;

[[noreturn]] void refuse(const ConfigField& field, std::string_view text) {
  throw ConfigError(concat(field.name(), " is '", text, "'; it must be ", type_name(field)));
}

void parse_into(bool& value, const ConfigField& field, std::string_view text) {
  if (text != "true" && text != "false") refuse(field, text);
  value = text == "true";
}

void parse_into(int64_t& value, const ConfigField& field, std::string_view text) {
  const auto number = to_integer(text);
  if (!number) refuse(field, text);
  value = *number;
}

void parse_into(double& value, const ConfigField& field, std::string_view text) {
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) refuse(field, text);
}

void parse_into(std::string& value, const ConfigField&, std::string_view text) {
  value = text;
}

template <class Element>
void parse_into(std::vector<Element>& value, const ConfigField& field, std::string_view text) {
  value.clear();
  if (text.empty()) return;
  for (const std::string_view part : split(text, ',')) {
    parse_into(value.emplace_back(), field, part);
  }
}

std::string print(bool value) {
  return value ? "true" : "false";
}

std::string print(int64_t value) {
  return std::to_string(value);
}

// The shortest text that parses to the same number; without a point, TOML reads an integer.
std::string print(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string text(digits.data(), end);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string print(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') text += '\\';
    if (byte >= 0x20 && byte != 0x7F) {
      text += c;
      continue;
    }
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    text += concat("\\u00", kDigits[byte / 16], kDigits[byte % 16]);
  }
  return text + '"';
}

template <class Element>
std::string print(const std::vector<Element>& values) {
  std::vector<std::string> texts;
  for (const Element& value : values) texts.push_back(print(value));
  return concat("[", join(texts, ", "), "]");
}

// Whole numbers are written without an exponent.
std::string limit_name(double limit) {
  const auto whole = static_cast<int64_t>(limit);
  return static_cast<double>(whole) == limit ? with_thousands(whole) : concat(limit);
}

std::string range_name(const ConfigField& field) {
  std::string text;
  if (field.least > std::numeric_limits<double>::lowest()) {
    text += concat(" from ", limit_name(field.least));
  }
  if (field.most < std::numeric_limits<double>::max()) {
    text += concat(" to ", limit_name(field.most));
  }
  return text;
}

std::string choice_names(const ConfigField& field) {
  const Texts names = field.choices();
  std::string text = names.front();
  for (size_t i = 1; i < names.size(); ++i) {
    text += concat(i + 1 < names.size() ? ", " : " or ", names[i]);
  }
  return text;
}

std::string name_of(const bool*, const ConfigField&) {
  return "true or false";
}
std::string name_of(const int64_t*, const ConfigField& field) {
  return "a whole number" + range_name(field);
}
std::string name_of(const double*, const ConfigField& field) {
  return "a number" + range_name(field);
}
std::string name_of(const std::string*, const ConfigField& field) {
  return field.choices != nullptr ? choice_names(field) : "a string";
}
std::string name_of(const Texts*, const ConfigField&) {
  return "a list of strings";
}
std::string name_of(const Numbers*, const ConfigField& field) {
  return "a list of numbers" + range_name(field);
}

// False for NaN.
bool is_inside(const ConfigField& field, double value) {
  return value >= field.least && value <= field.most;
}

void check_limits(const ConfigField&, bool, std::string_view) {}
void check_limits(const ConfigField& field, int64_t value, std::string_view given) {
  if (is_inside(field, static_cast<double>(value))) return;
  refuse(field, given.empty() ? print(value) : given);
}
void check_limits(const ConfigField& field, double value, std::string_view given) {
  if (!is_inside(field, value)) refuse(field, given.empty() ? print(value) : given);
}
void check_limits(const ConfigField& field, const std::string& value, std::string_view) {
  if (field.choices == nullptr) return;
  const Texts names = field.choices();
  TSR_CHECK(std::ranges::find(names, value) != names.end(), field.name(), " is '", value,
            "'; choose ", choice_names(field), did_you_mean(value, names));
}
void check_limits(const ConfigField&, const Texts&, std::string_view) {}
void check_limits(const ConfigField& field, const Numbers& values, std::string_view given) {
  for (const double value : values) check_limits(field, value, given);
}

}  // namespace

std::string type_name(const ConfigField& field) {
  TrainConfig any;
  return std::visit([&](const auto* target) { return name_of(target, field); }, field.target(any));
}

ConfigValue value_of(const ConfigField& field, const TrainConfig& config) {
  TrainConfig copy = config;
  return std::visit([](const auto* target) -> ConfigValue { return *target; }, field.target(copy));
}

ConfigValue parse_value(const ConfigField& field, std::string_view text) {
  TrainConfig any;
  const auto parse = [&](auto* target) -> ConfigValue {
    parse_into(*target, field, text);
    return *target;
  };
  return std::visit(parse, field.target(any));
}

void assign(const ConfigField& field, const ConfigValue& value, TrainConfig& config,
            std::string_view given) {
  const auto store = [&]<class T>(T* target) {
    TSR_ASSERT(std::holds_alternative<T>(value), "type of ", field.name());
    check_limits(field, std::get<T>(value), given);
    *target = std::get<T>(value);
  };
  std::visit(store, field.target(config));
}

std::string to_toml(const ConfigValue& value) {
  return std::visit([](const auto& held) { return print(held); }, value);
}

}  // namespace tessera
