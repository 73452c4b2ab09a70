// The one list of all keys.
#include "tessera/config/fields.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/config/internal/sections.h"

namespace tessera {
namespace {

using namespace config::detail;

Fields all_fields() {
  const std::initializer_list<std::pair<std::string_view, Fields>> sections{
      {"model", model_fields()}, {"data", data_fields()}, {"optim", optim_fields()},
      {"train", train_fields()}, {"run", run_fields()},   {"parallel", parallel_fields()}};
  Fields all;
  for (const auto& [section, fields] : sections) {
    for (ConfigField field : fields) {
      field.section = section;
      all.push_back(field);
    }
  }
  return all;
}

}  // namespace

std::string ConfigField::name() const {
  return concat(section, ".", key);
}

std::span<const ConfigField> config_fields() {
  static const Fields kFields = all_fields();
  return kFields;
}

const ConfigField& config_field(std::string_view name) {
  const auto fields = config_fields();
  const auto found = std::ranges::find(fields, name, &ConfigField::name);
  TSR_ASSERT(found != fields.end(), "key ", name);
  return *found;
}

}  // namespace tessera
