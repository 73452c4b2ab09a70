#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tessera/plan/dialect.h"

namespace tessera::plan::detail {

Dialect megatron_dialect();
Dialect olmo_dialect();
Dialect nemo_dialect();
Dialect tessera_dialect();

/// The given flags of a dialect by meaning.
class FlagReader {
 public:
  FlagReader(const Dialect& dialect, const FlagValues& flags) : dialect_(dialect), flags_(flags) {}

  std::optional<std::string> text(std::string_view meaning) const;
  /// ConfigError if the value is not a whole number.
  std::optional<int64_t> integer(std::string_view meaning) const;

 private:
  const FlagValue* find(std::string_view meaning) const;

  const Dialect& dialect_;
  const FlagValues& flags_;
};

/// All axes of the layout under their own names.
ShownLayout shown_as_is(const std::string& title, const Layout& layout);

/// Whether every rank keeps a whole model, as DDP does. In Megatron this depends on the optimizer.
bool keeps_whole_models(const DialectPlan& layout);

/// Adds the flag with this value unless it is the default.
void add_unless(FlagValues& flags, const std::string& flag, int64_t value, int64_t default_value);

}  // namespace tessera::plan::detail
