// OLMo-core's distributed.utils in C++: exchange of values, objects and tensors, and taking turns.
// docs/dialects/olmo.md shows the Python original.
//
//   tessera run --nproc 3 -- port_olmo_utils
#include <ATen/ATen.h>

#include <iostream>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/dialect/olmo/utils.h"

namespace {

using namespace tessera::olmo;

void run() {
  init_distributed("gloo");
  const int64_t rank = get_rank();
  const int64_t ranks = all_reduce_value(1);
  const int64_t seed = synchronize_value(100 + rank, get_default_device(), /*src=*/2);
  const bool stop = synchronize_flag(rank == 0);
  const std::vector<std::string> files = broadcast_object(
      rank == 0 ? std::vector<std::string>{"a.bin", "b.bin"} : std::vector<std::string>{});

  const auto rows = at::full({rank + 1}, static_cast<double>(rank));
  int64_t gathered = 0;
  for (const at::Tensor& piece : all_gather(rows)) gathered += piece.numel();
  const std::vector<int64_t> local_ranks = all_gather_object(get_local_rank());

  // One rank at a time, as files are written.
  do_n_at_a_time(
      [&] {
        std::cout << tessera::concat("rank ", rank, " of ", ranks, ": seed ", seed, ", stop ",
                                     stop ? "yes" : "no", ", files ", tessera::join(files, " "),
                                     ", elements ", gathered, ", local ranks ",
                                     tessera::join(local_ranks, " "), "\n")
                  << std::flush;
      },
      {.n = 1});
  barrier();
  shutdown_distributed();
}

}  // namespace

int main() {
  try {
    run();
  } catch (const tessera::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
