#include "tessera/plan/dialect.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/shell.h"
#include "tessera/plan/internal/dialects.h"

namespace tessera {

using namespace plan::detail;

namespace {

const DialectFlag* find_flag(const Dialect& dialect, std::string_view flag) {
  const auto at = std::ranges::find_if(dialect.flags, [&](const DialectFlag& candidate) {
    return candidate.name == flag || candidate.shorthand == flag;
  });
  return at == dialect.flags.end() ? nullptr : &*at;
}

// "; in olmo it is --tp", or the rule that fixes it there.
std::string instead(const Dialect& dialect, const DialectFlag& foreign) {
  const auto at = std::ranges::find(dialect.flags, foreign.meaning, &DialectFlag::meaning);
  if (at != dialect.flags.end()) return concat("; in ", dialect.name, " it is ", at->name);
  return concat("; ", dialect.name, " has no such flag: ", dialect.rule);
}

[[noreturn]] void refuse(const Dialect& dialect, const std::string& flag) {
  std::vector<std::string> names;
  for (const DialectFlag& known : dialect.flags) names.push_back(known.name);
  for (const Dialect& other : dialects()) {
    const DialectFlag* foreign = find_flag(other, flag);
    if (foreign == nullptr) continue;
    throw ConfigError(concat(flag, " is a flag of the dialect ", other.name, ", but this is ",
                             dialect.name, instead(dialect, *foreign)));
  }
  throw ConfigError(
      concat("the dialect ", dialect.name, " has no flag ", flag, did_you_mean(flag, names)));
}

void check_flags(const Dialect& dialect, const FlagValues& flags) {
  std::vector<std::pair<const DialectFlag*, std::string>> seen;
  for (const auto& [name, value] : flags) {
    const DialectFlag* known = find_flag(dialect, name);
    if (known == nullptr) refuse(dialect, name);
    for (const auto& [earlier, spelling] : seen) {
      TSR_CHECK(spelling != name, name, " is given twice; give it once");
      TSR_CHECK(earlier != known, spelling, " and ", name, " mean the same; give one of them");
    }
    seen.emplace_back(known, name);
  }
}

}  // namespace

std::string ShownLayout::sizes() const {
  std::vector<std::string> parts;
  for (const auto& [label, axis] : axes) {
    parts.push_back(concat(label, " ", layout.axis(axis).size()));
  }
  return join(parts, " × ");
}

std::vector<std::pair<std::string, std::string>> DialectPlan::lines() const {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const ShownLayout& layout : layouts) lines.emplace_back(layout.title, layout.sizes());
  for (const auto& [name, value, remark] : notes) lines.emplace_back(name, value + remark);
  return lines;
}

const GroupSpec* DialectPlan::find(Role role) const {
  const auto at = std::ranges::find(roles, role, &RoleOf::role);
  return at == roles.end() ? nullptr : plan.find(at->name);
}

int64_t DialectPlan::size(Role role) const {
  const GroupSpec* const spec = find(role);
  return spec == nullptr ? 1 : spec->groups.size();
}

int64_t DialectPlan::copies() const {
  if (find(Role::kShards) == nullptr) return 1;
  return size(Role::kData) * size(Role::kContext) / size(Role::kShards);
}

bool DialectPlan::has_experts() const {
  return size(Role::kExpert) > 1 || find(Role::kExpertTensor) != nullptr;
}

std::string to_string(const FlagValues& flags) {
  std::vector<std::string> words;
  for (const auto& [flag, value] : flags) words.push_back(concat(flag, " ", shell_word(value)));
  return join(words, " ");
}

std::span<const Dialect> dialects() {
  static const std::vector<Dialect> all{megatron_dialect(), olmo_dialect(), nemo_dialect(),
                                        tessera_dialect()};
  return all;
}

const Dialect& find_dialect(std::string_view name) {
  std::vector<std::string> names;
  for (const Dialect& dialect : dialects()) {
    if (dialect.name == name) return dialect;
    names.push_back(dialect.name);
  }
  throw ConfigError(concat("there is no dialect '", name, "'; choose ", join(names, ", "),
                           did_you_mean(name, names)));
}

DialectPlan plan_in(const Dialect& dialect, const DialectQuery& query) {
  check_flags(dialect, query.flags);
  return dialect.plan(query);
}

}  // namespace tessera
