#include "tessera/format/checkpoint/box_copy.h"

namespace tessera {
namespace {

/// Walks the rows of the shared box, one dimension after the other.
struct SharedRows {
  const Box& from;
  const Box& to;
  const Box& shared;
  const std::function<void(int64_t from, int64_t to, int64_t size)>& copy;
  size_t last = 0;   // Later dimensions are whole in both boxes.
  int64_t rows = 1;  // Elements per index along `last`.

  void along(size_t dim, int64_t from_row, int64_t to_row) const {
    const int64_t from_begin = from_row * from.shape[dim] + shared.offset[dim] - from.offset[dim];
    const int64_t to_begin = to_row * to.shape[dim] + shared.offset[dim] - to.offset[dim];
    if (dim == last) return copy(from_begin * rows, to_begin * rows, shared.shape[dim] * rows);
    for (int64_t i = 0; i < shared.shape[dim]; ++i) along(dim + 1, from_begin + i, to_begin + i);
  }
};

}  // namespace

void for_each_shared_run(const Box& from, const Box& to, const Box& shared,
                         const std::function<void(int64_t from, int64_t to, int64_t size)>& copy) {
  if (shared.numel() == 0) return;
  if (shared.shape.empty()) return copy(0, 0, 1);
  SharedRows walk{from, to, shared, copy, shared.shape.size() - 1};
  while (walk.last > 0 && from.shape[walk.last] == shared.shape[walk.last] &&
         to.shape[walk.last] == shared.shape[walk.last]) {
    walk.rows *= shared.shape[walk.last--];
  }
  walk.along(0, 0, 0);
}

}  // namespace tessera
