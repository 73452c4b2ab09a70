// Lines of Python's habits that must not compile. The script of this name compiles the file once:
// each line marked so gives exactly one error, and its text holds the words behind the mark.
#include "tessera/comm/collectives.h"
#include "tessera/dialect/nemo/mesh_utils.h"
#include "tessera/dialect/olmo/tensors.h"

namespace {

using namespace tessera;
using namespace tessera::olmo;

[[maybe_unused]] void lines(const at::Tensor& x, const Group& group, const DeviceMesh& mesh) {
  for (int64_t r : group.ranks()) (void)r;   // error: cannot convert .*GlobalRank.*int64_t
  int64_t mine = mesh.get_local_rank("tp");  // error: cannot convert .*GroupRank.*int64_t
  broadcast(x, 0, group).wait();             // error: write GlobalRank\{r\} .* or GroupRank\{r\}
  nemo::create_device_mesh(
      nemo::FSDP2Config{},
      {.tp_size = 2, .dp_replicate_size = 2});  // error: designator order .*dp_replicate_size
  auto weight =
      ShardedFlatParameter::shard(x);  // error: reference to .ShardedFlatParameter. is ambiguous
  std::vector<at::Tensor> all = all_gather(x, group);  // error: conversion from .*Work
}

}  // namespace
