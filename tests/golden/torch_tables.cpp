#include "tests/golden/golden.h"
#include "tests/golden/ranked_cases.h"

namespace tessera::golden {

std::vector<Table> torch_tables() {
  return {olmo_utils_table(),
          olmo_utils_collectives_table(),
          olmo_flat_collectives_table(),
          dtensor_table(),
          nemo_mesh_table(),
          olmo_step_table()};
}

int run_as_rank(const std::string& job) {
  if (job == "dtensor") return answer_as_rank(answer_dtensor);
  if (job == "olmo_flat_collectives") return answer_as_rank(answer_flat_collectives);
  if (job == "olmo_step") return answer_as_rank(answer_olmo_step);
  if (job == "olmo_utils_collectives") return answer_olmo_utils();
  if (job == "tensor_parallel") return answer_as_rank(answer_tensor_collectives);
  throw UnknownName("job of a rank", job);
}

}  // namespace tessera::golden
