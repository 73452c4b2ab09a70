#include "tessera/train/read_ahead.h"

#include <utility>

namespace tessera {

BatchTensors ReadAhead::rows(int64_t step, Span rows) const {
  std::optional<Reading> read = std::exchange(next_, std::nullopt);
  // A step that is repeated, or another after a rollback, was not read ahead.
  const bool fits = read && read->step == step && read->rows == rows;
  if (read && !fits) read->tensors.wait();  // The source is for one thread at a time.
  BatchTensors now = fits ? read->tensors.get() : source_.rows(step, rows);
  next_ = {step + 1, rows, std::async(std::launch::async, [&source = source_, step, rows] {
             return source.rows(step + 1, rows);
           })};
  return now;
}

}  // namespace tessera
