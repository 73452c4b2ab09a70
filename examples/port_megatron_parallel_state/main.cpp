// Megatron-Core's parallel_state in C++: two tensor-parallel ranks in each of two replicas.
// docs/dialects/megatron.md shows the Python original.
//
//   tessera run --nproc 4 -- port_megatron_parallel_state
#include <ATen/ATen.h>

#include <iostream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/megatron/parallel_state.h"

namespace {

using namespace tessera;
namespace mpu = tessera::megatron;

void run() {
  World& world = World::make_current(World::connect({.backend = Backend::kGloo}));
  mpu::initialize_model_parallel({.tensor_model_parallel_size = 2});

  // Each tensor-parallel rank has a part of a product; their sum is the whole.
  const Group tensor = mpu::get_tensor_model_parallel_group();
  const at::Tensor partial = at::full({2}, static_cast<double>(world.rank().value));
  all_reduce(partial, tensor).wait();

  // Replicas begin with the weights of the first rank of their group.
  const Group data = mpu::get_data_parallel_group();
  const at::Tensor weight = at::full({2}, static_cast<double>(world.rank().value));
  broadcast(weight, GlobalRank{mpu::get_data_parallel_src_rank()}, data).wait();

  std::cout << concat("rank ", world.rank(), ": tp_dp_cp_pp_ep ", mpu::get_all_ranks(),
                      ", tensor parallel ", mpu::get_tensor_model_parallel_rank(), " of ",
                      mpu::get_tensor_model_parallel_world_size(), ", sum ",
                      partial[0].item<double>(), ", weight ", weight[0].item<double>(),
                      tensor.rank() == 0 ? ", first of its group" : "", "\n")
            << std::flush;
  mpu::destroy_model_parallel();
  World::current()->close();
  World::clear_current();
}

}  // namespace

int main() {
  try {
    run();
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
