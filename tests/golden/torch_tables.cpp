#include "tests/golden/golden.h"

namespace tessera::golden {

std::vector<Table> torch_tables() {
  return {olmo_utils_table(), olmo_utils_collectives_table(), nemo_mesh_table()};
}

}  // namespace tessera::golden
