#include "tests/lint/signatures.h"

#include <regex>
#include <string_view>

namespace tessera::lint {
namespace {

constexpr std::string_view kOpening = "([{<";
constexpr std::string_view kClosing = ")]}>";

std::string trimmed(const std::string& text) {
  static const std::regex kSpace(R"(\s+)");
  const std::string one_spaced = std::regex_replace(text, kSpace, " ");
  const size_t first = one_spaced.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return one_spaced.substr(first, one_spaced.find_last_not_of(' ') - first + 1);
}

// Where the bracket at `open` closes; npos where it does not.
size_t closing_of(const std::string& code, size_t open) {
  const char closing = kClosing[kOpening.find(code[open])];
  int depth = 0;
  for (size_t at = open; at < code.size(); ++at) {
    if (code[at] == code[open]) ++depth;
    if (code[at] == closing && --depth == 0) return at;
  }
  return std::string::npos;
}

// The first `mark` outside all brackets; npos where there is none.
size_t find_outside(const std::string& text, char mark) {
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == mark && depth == 0) return at;
    if (kOpening.find(text[at]) != std::string_view::npos) ++depth;
    if (kClosing.find(text[at]) != std::string_view::npos) --depth;
  }
  return std::string::npos;
}

std::vector<std::string> split_outside(std::string text, char mark) {
  std::vector<std::string> parts;
  for (size_t at = find_outside(text, mark); at != std::string::npos;
       at = find_outside(text, mark)) {
    parts.push_back(trimmed(text.substr(0, at)));
    text = text.substr(at + 1);
  }
  parts.push_back(trimmed(text));
  return parts;
}

// "type name = value"; nothing for what has no type, such as an argument of a call.
std::optional<Parameter> parameter_of(const std::string& text) {
  const size_t equals = find_outside(text, '=');
  const std::string declared = trimmed(text.substr(0, equals));
  static const std::regex kTypeAndName(R"(^(.*[\w>&*:]) ?\b(\w+)$)");
  std::smatch match;
  if (!std::regex_match(declared, match, kTypeAndName)) return std::nullopt;
  std::string type = trimmed(match[1]);
  if (type.ends_with("::")) return std::nullopt;  // A qualified value.
  Parameter parameter{std::move(type), match[2]};
  if (equals != std::string::npos) parameter.value = trimmed(text.substr(equals + 1));
  return parameter;
}

std::optional<Parameters> parameters_of(const std::string& list) {
  Parameters parameters;
  if (trimmed(list).empty()) return parameters;
  for (const std::string& text : split_outside(list, ',')) {
    std::optional<Parameter> parameter = parameter_of(text);
    if (!parameter) return std::nullopt;
    parameters.push_back(*std::move(parameter));
  }
  return parameters;
}

// Whether what stands before `name` can begin a declaration of it: a type, or a new statement.
bool may_declare(const std::string& code, size_t name) {
  constexpr size_t kEnough = 40;
  const size_t begin = name > kEnough ? name - kEnough : 0;
  const std::string text = trimmed(code.substr(begin, name - begin));
  if (text.ends_with("return") || text.ends_with("->")) return false;
  static const std::string_view kEnds = ";{}&*>:";
  const char last = text.empty() ? ';' : text.back();
  return std::isalnum(static_cast<unsigned char>(last)) != 0 || last == '_' ||
         (kEnds.find(last) != std::string_view::npos && !text.ends_with("::"));
}

// The statements of a struct's body. A function's body ends its statement.
std::vector<std::string> statements_of(const std::string& body) {
  std::vector<std::string> statements;
  std::string current;
  for (size_t at = 0; at < body.size(); ++at) {
    if (body[at] == '{') {
      const size_t end = closing_of(body, at);
      const bool is_function = current.find('(') != std::string::npos;
      if (!is_function) current += body.substr(at, end - at + 1);
      at = end;
      if (!is_function) continue;
    }
    if (body[at] != ';' && body[at] != '}') {
      current += body[at];
      continue;
    }
    statements.push_back(trimmed(current));
    current.clear();
  }
  return statements;
}

}  // namespace

std::vector<Parameters> overloads_of(const std::string& code, const std::string& name) {
  std::vector<Parameters> overloads;
  const std::regex use("\\b" + name + "\\(");
  for (auto at = std::sregex_iterator(code.begin(), code.end(), use); at != std::sregex_iterator();
       ++at) {
    const auto begin = static_cast<size_t>(at->position());
    const size_t open = begin + name.size();
    const size_t close = closing_of(code, open);
    if (close == std::string::npos || !may_declare(code, begin)) continue;
    if (auto parameters = parameters_of(code.substr(open + 1, close - open - 1))) {
      overloads.push_back(*std::move(parameters));
    }
  }
  return overloads;
}

Parameters fields_of(const std::string& code, const std::string& name) {
  std::smatch match;
  if (!std::regex_search(code, match, std::regex("struct " + name + "\\b[^;{]*\\{"))) return {};
  const auto open = static_cast<size_t>(match.position() + match.length() - 1);
  const std::string body = code.substr(open + 1, closing_of(code, open) - open - 1);
  Parameters fields;
  for (const std::string& statement : statements_of(body)) {
    const size_t equals = statement.find('=');
    if (statement.substr(0, equals).find('(') != std::string::npos) continue;
    if (statement.starts_with("friend ") || statement.starts_with("using ")) continue;
    if (auto field = parameter_of(statement)) fields.push_back(*std::move(field));
  }
  return fields;
}

}  // namespace tessera::lint
