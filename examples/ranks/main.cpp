// Every rank prints its rank and the sum of all ranks. Start it with torchrun, srun, mpirun,
// or alone.
#include <iostream>

#include "tessera/base/error.h"
#include "tessera/dialect/olmo/utils.h"

int main() {
  using namespace tessera;
  try {
    olmo::init_distributed("gloo");
    const int64_t sum = olmo::all_reduce_value(olmo::get_rank(), c10::Device(c10::kCPU));
    const auto line = [&] {
      std::cout << "rank " + std::to_string(olmo::get_rank()) + " of " +
                       std::to_string(olmo::get_world_size()) + ", local rank " +
                       std::to_string(olmo::get_local_rank()) + ", sum of ranks " +
                       std::to_string(sum) + "\n"
                << std::flush;
    };
    olmo::do_n_at_a_time(line, {.n = 1});
    olmo::shutdown_distributed();
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
