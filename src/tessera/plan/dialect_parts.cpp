#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/text.h"
#include "tessera/plan/internal/dialects.h"

namespace tessera::plan::detail {
const FlagValue* FlagReader::find(std::string_view meaning) const {
  const auto known = std::ranges::find(dialect_.flags, meaning, &DialectFlag::meaning);
  const auto at = std::ranges::find_if(flags_, [&](const FlagValue& flag) {
    return flag.flag == known->name || flag.flag == known->shorthand;
  });
  return at == flags_.end() ? nullptr : &*at;
}

std::optional<std::string> FlagReader::text(std::string_view meaning) const {
  const FlagValue* const flag = find(meaning);
  return flag == nullptr ? std::nullopt : std::optional(flag->value);
}

std::optional<int64_t> FlagReader::integer(std::string_view meaning) const {
  const FlagValue* const flag = find(meaning);
  if (flag == nullptr) return std::nullopt;
  return checked_integer(flag->value, flag->flag);
}

ShownLayout shown_as_is(const std::string& title, const Layout& layout) {
  ShownLayout shown{title, layout, {}};
  for (const std::string& axis : layout.axis_names()) shown.axes.push_back({axis, axis});
  return shown;
}

bool keeps_whole_models(const DialectPlan& layout) {
  return layout.dialect != "megatron" && layout.find(Role::kGradients) != nullptr;
}

void add_unless(FlagValues& flags, const std::string& flag, int64_t value, int64_t default_value) {
  if (value != default_value) flags.push_back({flag, concat(value)});
}

}  // namespace tessera::plan::detail
