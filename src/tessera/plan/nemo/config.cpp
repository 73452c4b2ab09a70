#include "tessera/plan/nemo/config.h"

#include <array>

#include "tessera/base/check.h"

namespace tessera::nemo {

const char* strategy_name(const DistributedConfig& config) {
  static constexpr std::array kNames{"fsdp2", "megatron_fsdp", "ddp"};  // The variant's order.
  return kNames[config.index()];
}

DistributedConfig strategy_named(std::string_view name) {
  const std::string lower = to_lower(name);
  if (lower == "fsdp2") return FSDP2Config{};
  if (lower == "megatron_fsdp" || lower == "megatron-fsdp" || lower == "mfsdp") {
    return MegatronFSDPConfig{};
  }
  if (lower == "ddp") return DDPConfig{};
  static const std::array<std::string, 3> kKnown{"fsdp2", "megatron_fsdp", "ddp"};
  throw ConfigError(concat("strategy '", name, "' is unknown; choose ", join(kKnown, ", "),
                           did_you_mean(lower, kKnown)));
}

}  // namespace tessera::nemo
