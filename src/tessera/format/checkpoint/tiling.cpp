#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/format/checkpoint/checkpoint_index.h"

namespace tessera {
namespace {

bool overlap(const Box& a, const Box& b) {
  for (size_t dim = 0; dim < a.shape.size(); ++dim) {
    const bool apart = a.offset[dim] + a.shape[dim] <= b.offset[dim] ||
                       b.offset[dim] + b.shape[dim] <= a.offset[dim];
    if (apart) return false;
  }
  return true;
}

int64_t rows_end(const Box& box) {
  return box.shape.empty() ? 1 : box.offset[0] + box.shape[0];
}

// Sweeps along the first dimension; only boxes that share a row are compared.
std::string overlap_problem(std::vector<Box> boxes) {
  std::ranges::sort(boxes, {}, &Box::offset);
  std::vector<const Box*> open;
  for (const Box& box : boxes) {
    std::erase_if(open, [&](const Box* other) {
      return !box.shape.empty() && rows_end(*other) <= box.offset[0];
    });
    for (const Box* other : open) {
      if (overlap(box, *other)) return concat("boxes ", *other, " and ", box, " overlap");
    }
    open.push_back(&box);
  }
  return "";
}

}  // namespace

std::string tiling_problem(const std::vector<int64_t>& shape, std::vector<Box> boxes) {
  const Box whole{.shape = shape, .offset = std::vector<int64_t>(shape.size(), 0)};
  std::erase_if(boxes, [](const Box& box) { return box.numel() == 0; });
  std::string problem = overlap_problem(boxes);
  if (!problem.empty()) return problem;
  int64_t held = 0;  // Without overlap it is at most that of the whole.
  for (const Box& box : boxes) held += box.numel();
  const int64_t missing = whole.numel() - held;
  return missing == 0 ? "" : concat(missing, " of ", whole.numel(), " elements are missing");
}

}  // namespace tessera
