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

/// Flags of a dialect by what they mean.
class FlagReader {
 public:
  FlagReader(const Dialect& dialect, const FlagValues& flags) : dialect_(dialect), flags_(flags) {}

  std::optional<std::string> text(std::string_view meaning) const;
  /// ConfigError where the value is no whole number.
  std::optional<int64_t> integer(std::string_view meaning) const;

 private:
  const FlagValue* find(std::string_view meaning) const;

  const Dialect& dialect_;
  const FlagValues& flags_;
};

/// All axes of the layout under their own names.
ShownLayout shown_as_is(const std::string& title, const Layout& layout);

/// Whether every rank keeps a whole model, as DDP does. Megatron leaves that to its optimizer.
bool keeps_whole_models(const DialectPlan& layout);

/// The flag with this value where it is not the default, otherwise none.
void add_unless(FlagValues& flags, const std::string& flag, int64_t value, int64_t default_value);

}  // namespace tessera::plan::detail
