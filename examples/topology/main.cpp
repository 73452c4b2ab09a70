// A mesh of 2 × 2 × 4 ranks: its groups, and which shard of a weight each rank holds.
#include <iostream>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/topology/box.h"
#include "tessera/topology/layout.h"

int main() {
  using namespace tessera;

  const Layout mesh = Layout::row_major({{"pp", 2}, {"dp", 2}, {"tp", 4}});  // tp varies fastest
  const GlobalRank me{6};
  std::cout << "mesh " << mesh << "\n";
  std::cout << "rank " << me << " sits at pp,dp,tp = " << join(mesh.coordinate(me), ",") << "\n";
  for (const char* axis : {"pp", "dp", "tp"}) {
    std::cout << "its " << axis << " group: " << join(mesh.group_of(me, {axis}), " ") << "\n";
  }

  // Axes that are not adjacent can be flattened: here the ranks that hold one replica of the model.
  std::cout << "its model copy: "
            << join(mesh.flatten({"pp", "tp"}, "model").group_of(me, {"model"}), " ") << "\n";

  // A (4096, 1024) weight: rows sharded over dp, columns over tp.
  const std::vector<int64_t> shape{4096, 1024};
  const std::vector<int64_t> sub_mesh{2, 4};
  const std::vector<int64_t> at{mesh.coordinate(me, "dp"), mesh.coordinate(me, "tp")};
  const std::vector<Placement> placements{Shard{0}, Shard{1}};
  std::cout << "its part of a (4096,1024) weight: "
            << compute_local_shape_and_global_offset(shape, sub_mesh, at, placements) << "\n";

  try {
    Layout::row_major({{"dp", 0}});
  } catch (const ConfigError& error) {
    std::cout << "an error says what is wrong: " << error.what() << "\n";
  }
}
