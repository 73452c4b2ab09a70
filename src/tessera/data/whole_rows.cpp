#include "tessera/data/whole_rows.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

WholeRows::WholeRows(const TokenData& data, const Options& options)
    : options_(options), sources_(data.sources().begin(), data.sources().end()), first_rows_{0} {
  TSR_CHECK(options.batch > 0 && options.seq > 0, "batch=", options.batch, ", seq=", options.seq,
            "; both must be at least 1");
  for (const TokenRun& source : sources_) {
    const int64_t targets = std::max<int64_t>(source.size() - 1, 0);
    first_rows_.push_back(first_rows_.back() + (targets + options.seq - 1) / options.seq);
  }
  TSR_CHECK(first_rows_.back() > 0, "the data has fewer than two tokens; give more");
}

int64_t WholeRows::batches() const {
  return (first_rows_.back() + options_.batch - 1) / options_.batch;
}

int64_t WholeRows::targets() const {
  int64_t sum = 0;
  for (const TokenRun& source : sources_) sum += std::max<int64_t>(source.size() - 1, 0);
  return sum;
}

BatchRows WholeRows::rows(int64_t batch, int64_t lo, int64_t hi) const {
  TSR_CHECK(batch >= 0 && batch < batches(), "batch ", batch, " is not one of ", batches());
  TSR_CHECK(0 <= lo && lo <= hi && hi <= options_.batch, "rows ", lo, " to ", hi,
            " are not in a batch of ", options_.batch);
  BatchRows out{.rows = hi - lo, .seq = options_.seq};
  for (int64_t row = lo; row < hi; ++row) append(batch * options_.batch + row, out);
  const auto size = static_cast<size_t>(out.rows * out.seq);
  out.inputs.resize(size, 0);
  out.targets.resize(size, options_.ignored);
  return out;
}

// Padding follows the tokens of its row, so that no token attends to it.
void WholeRows::append(int64_t row, BatchRows& to) const {
  if (row >= first_rows_.back()) return;  // This one and all later rows of the batch are padding.
  const auto after = std::ranges::upper_bound(first_rows_, row);
  const auto source = static_cast<size_t>(after - first_rows_.begin()) - 1;
  const int64_t begin = (row - first_rows_[source]) * options_.seq;
  const int64_t count = std::min(options_.seq, sources_[source].size() - 1 - begin);
  std::vector<int64_t> tokens(static_cast<size_t>(count) + 1);
  sources_[source].read(begin, tokens);
  const size_t end = to.inputs.size() + static_cast<size_t>(options_.seq);
  to.inputs.insert(to.inputs.end(), tokens.begin(), tokens.end() - 1);
  to.targets.insert(to.targets.end(), tokens.begin() + 1, tokens.end());
  to.inputs.resize(end, 0);
  to.targets.resize(end, options_.ignored);
}

}  // namespace tessera
