#include "tessera/dialect/internal/setup.h"

#include "tessera/base/check.h"

namespace tessera::dialect::detail {

int64_t size_of(const Layout& layout, const std::string& axis) {
  return layout.has_axis(axis) ? layout.axis(axis).size() : 1;
}

TrainingSetup setup_of(ParallelDims dims, const DataParallelOptions& data) {
  set_data_parallel(dims, data);
  TrainingSetup setup{.dp_type = data.type, .dims = dims};
  if (data.type == "zero1") setup.options.fsdp.reshard = Reshard::kKeep;
  return setup;
}

void check_unset(bool is_set, const std::string& field, const std::string& reason) {
  TSR_CHECK(!is_set, field, " is not supported: ", reason);
}

}  // namespace tessera::dialect::detail
