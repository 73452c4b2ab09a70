#include "tessera/base/error.h"
#include "tests/golden/golden.h"

namespace tessera::golden {

std::vector<Table> torch_tables() {
  return {};
}
Check megatron_getters_check() {
  return nullptr;
}
Check megatron_lifecycle_check() {
  return nullptr;
}
Check olmo_world_mesh_check() {
  return nullptr;
}
Check olmo_expert_mesh_check() {
  return nullptr;
}
Check olmo_sharded_flat_check() {
  return nullptr;
}
Check tensor_splits_check() {
  return nullptr;
}
Check tensor_collectives_check() {
  return nullptr;
}
std::vector<Json> with_collectives(std::vector<Json> cases) {
  return cases;
}
int run_as_rank(const std::string&) {
  throw StateError("this build starts no ranks");
}

}  // namespace tessera::golden
