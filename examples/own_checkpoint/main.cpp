// Your own tensors in a checkpoint that any number of ranks loads. The first start saves it, later
// ones load it and compare:
//
//   tessera run --nproc 4 -- own_checkpoint
//   tessera run --nproc 3 -- own_checkpoint
//   own_checkpoint
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>

#include <exception>
#include <iostream>

#include "tessera/base/text.h"
#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/save.h"
#include "tessera/comm/world.h"
#include "tessera/format/checkpoint/checkpoint.h"

namespace {

using namespace tessera;

void run(const std::string& folder) {
  World world = World::connect();
  const DeviceMesh mesh = init_device_mesh(world, {world.size()}, {"ranks"});
  const bool saves = !is_checkpoint(folder);
  const at::Tensor numbers = at::arange(70).view({10, 7}).to(at::kFloat);
  const DTensor table = distribute_tensor(saves ? numbers : at::zeros({10, 7}), mesh, {Shard{0}});
  torch::nn::Linear linear(7, 3);  // The same on all ranks.

  CheckpointEntries entries = entries_of(*linear);
  entries.emplace_back("table", table);
  if (saves) {
    save(folder, entries, world.group());
  } else {
    load(folder, entries, world.group());
  }
  const bool right = table.full_tensor().equal(numbers);
  if (world.rank() == GlobalRank{0}) {
    std::cout << concat(saves ? "saved " : "loaded ", folder, " on ", world.size(),
                        right ? " ranks\n" : " ranks, with other values\n");
  }
  world.close();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "own_checkpoint.tsr");
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
