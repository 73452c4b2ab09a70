#include "tests/lint/definitions.h"

#include <map>
#include <regex>
#include <set>

#include "tessera/base/text.h"

namespace tessera::lint {
namespace {

// Without comments, texts and lines of the preprocessor.
std::string code_of(const std::string& text) {
  static const std::regex kNoCode(
      R"re(//[^\n]*|/\*[^]*?\*/|R"(\w*)\([^]*?\)\1"|"(\\.|[^"\\\n])*"|'(\\.|[^'\\\n])'|(^|\n)#([^\n\\]|\\\n|\\.)*)re");
  return std::regex_replace(text, kNoCode, " ");
}

struct Scope {
  std::string name;  // "tessera::comm", a type's, or "" for one without a name.
  enum class Kind { kNamespace, kUnnamed, kOther } kind;
};

// What a "{" opens, by what stands before it since the last ";", "{" or "}".
Scope scope_of(const std::string& head) {
  static const std::regex kNamespace(R"(\bnamespace\s+([\w:]+)(\s+TSR_API)?\s*$)");
  static const std::regex kUnnamed(R"(\bnamespace\s*$)");
  static const std::regex kType(
      R"(^\s*(?:template\s*<[^]*>\s*)?(?:class|struct|union|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s*)?([\w:]+)\s*(?:final\s*)?(?::[^]*)?$)");
  std::smatch match;
  if (std::regex_search(head, match, kNamespace)) return {match[1], Scope::Kind::kNamespace};
  if (std::regex_search(head, kUnnamed)) return {"", Scope::Kind::kUnnamed};
  if (std::regex_search(head, match, kType)) return {match[1], Scope::Kind::kOther};
  return {"", Scope::Kind::kOther};
}

bool is_namespace(const std::vector<Scope>& scopes) {
  for (const Scope& scope : scopes) {
    if (scope.kind != Scope::Kind::kNamespace) return false;
  }
  return !scopes.empty();
}

std::string qualified(const std::vector<Scope>& scopes, const std::string& name) {
  std::string result;
  for (const Scope& scope : scopes) result += scope.name + "::";
  return result + name;
}

}  // namespace

std::vector<Definition> definitions_in(const std::string& text, const std::string& file) {
  static const std::regex kAlias(R"(^\s*(?:template\s*<[^]*>\s*)?using\s+(\w+)\s*=)");
  std::vector<Definition> found;
  std::vector<Scope> scopes;
  std::string head;
  for (const char letter : code_of(text)) {
    if (letter != '{' && letter != '}' && letter != ';') {
      head += letter;
      continue;
    }
    std::smatch match;
    if (letter == '{') {
      const Scope opened = scope_of(head);
      if (is_namespace(scopes) && opened.kind == Scope::Kind::kOther && !opened.name.empty()) {
        found.push_back({qualified(scopes, opened.name), file});
      }
      scopes.push_back(opened);
    } else if (letter == '}') {
      if (!scopes.empty()) scopes.pop_back();
    } else if (is_namespace(scopes) && std::regex_search(head, match, kAlias)) {
      found.push_back({qualified(scopes, match[1]), file});
    }
    head.clear();
  }
  return found;
}

std::vector<std::string> defined_twice(const std::vector<Definition>& definitions) {
  std::map<std::string, std::set<std::string>> files;
  for (const Definition& one : definitions) files[one.name].insert(one.file);
  std::vector<std::string> lines;
  for (const auto& [name, places] : files) {
    if (places.size() > 1) lines.push_back(name + " is defined in " + join(places, " and in "));
  }
  return lines;
}

}  // namespace tessera::lint
