#include "tessera/parallel/fsdp/internal/module_units.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "tessera/base/name_pattern.h"

namespace tessera::fsdp::detail {
namespace {

std::set<std::string> unit_names(const torch::nn::Module& module,
                                 const FullyShardOptions& options) {
  std::vector<std::string> names;
  std::set<std::string> chosen;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    names.push_back(item.key());
    if (options.is_unit && options.is_unit(item.key(), *item.value())) chosen.insert(item.key());
  }
  for (const std::string& pattern : options.units) {
    const std::vector<std::string> matching = names_matching(pattern, names);
    chosen.insert(matching.begin(), matching.end());
  }
  return chosen;
}

// The innermost unit around a parameter.
std::string owner_of(const std::string& parameter, const std::set<std::string>& units) {
  for (size_t dot = parameter.rfind('.'); dot != std::string::npos;
       dot = dot == 0 ? std::string::npos : parameter.rfind('.', dot - 1)) {
    const std::string module = parameter.substr(0, dot);
    if (units.contains(module)) return module;
  }
  return "";
}

}  // namespace

std::vector<ModuleUnit> units_of(const torch::nn::Module& module,
                                 const FullyShardOptions& options) {
  const std::set<std::string> names = unit_names(module, options);
  std::vector<ModuleUnit> units;
  std::set<const c10::TensorImpl*> known;
  for (const auto& item : module.named_parameters()) {
    if (!known.insert(item.value().unsafeGetTensorImpl()).second) continue;
    const std::string owner = owner_of(item.key(), names);
    auto unit = std::ranges::find(units, owner, &ModuleUnit::name);
    if (unit == units.end()) unit = units.insert(unit, {.name = owner});
    unit->parameters.push_back({item.key(), item.value()});
  }
  return units;
}

}  // namespace tessera::fsdp::detail
