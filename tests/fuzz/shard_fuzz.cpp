// Any shape, mesh and placements: either refused by ConfigError, or the boxes lie inside the tensor
// and hold as many elements as the local shape says.
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/topology/box.h"

namespace {

using tessera::Box;
using tessera::Placement;

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  // A number from `low` to `low` + 15; 0 where the input has ended.
  int64_t next(int64_t low) { return at_ < size_ ? low + data_[at_++] % 16 : 0; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

Placement next_placement(Bytes& bytes) {
  switch (bytes.next(0) % 4) {
    case 0:
      return tessera::Replicate{};
    case 1:
      return tessera::Partial{};
    case 2:
      return tessera::StridedShard{bytes.next(-4), bytes.next(-1)};
    default:
      return tessera::Shard{bytes.next(-4)};
  }
}

void check(Bytes bytes) {
  std::vector<int64_t> shape(static_cast<size_t>(bytes.next(0) % 4));
  for (int64_t& size : shape) size = bytes.next(-1);
  std::vector<int64_t> mesh(static_cast<size_t>(bytes.next(0) % 4));
  std::vector<int64_t> coordinate;
  std::vector<Placement> placements;
  for (int64_t& size : mesh) {
    size = bytes.next(0);
    coordinate.push_back(bytes.next(-1));
    placements.push_back(next_placement(bytes));
  }
  const Box whole =
      tessera::compute_local_shape_and_global_offset(shape, mesh, coordinate, placements);
  int64_t numel = 0;
  for (const Box& box : tessera::local_boxes(shape, mesh, coordinate, placements)) {
    numel += box.numel();
    const Box tensor{shape, std::vector<int64_t>(shape.size(), 0)};
    if (tessera::intersect(box, tensor) != box) std::abort();
  }
  if (numel != whole.numel()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    check(Bytes(data, size));
  } catch (const tessera::ConfigError&) {
  }
  return 0;
}
