#include "tessera/data/batches.h"

#include <algorithm>
#include <span>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/data/shuffle.h"

namespace tessera {
namespace {

void check_options(const BatchOptions& options) {
  TSR_CHECK(options.batch > 0, "batch=", options.batch, "; a batch needs at least one row");
  TSR_CHECK(options.seq > 0, "seq=", options.seq, "; a row needs at least one token");
}

}  // namespace

Batches::Batches(const TokenData& data, const BatchOptions& options, std::string_view name)
    : sources_(data.sources().begin(), data.sources().end()),
      options_(options),
      mixture_(data.shares(), options.seed) {
  check_options(options);
  for (const TokenRun& source : sources_) {
    TSR_CHECK(source.size() - 2 >= options.seq, "the ", name, " has ", source.size(), " tokens of ",
              source.path(), ", fewer than one sample of seq + 2 = ", options.seq,
              " + 2; use a shorter seq, more data, or another validation share");
  }
  TSR_CHECK(samples() >= options.batch, "the ", name, " has ", samples(),
            samples() == 1 ? " sample" : " samples", " of seq=", options.seq,
            " tokens, fewer than batch=", options.batch,
            "; use a smaller batch, more data, or another validation share");
}

int64_t Batches::samples_of(const TokenRun& source) const {
  return (source.size() - 1) / options_.seq;
}

int64_t Batches::samples() const {
  int64_t sum = 0;
  for (const TokenRun& source : sources_) sum += samples_of(source);
  return sum;
}

// Without shuffling, samples wrap around regardless of where the last one ends, as in common
// PyTorch scripts.
int64_t Batches::begin_of(const Mixture::Pick& pick) const {
  const TokenRun& source = sources_[pick.source];
  if (!options_.shuffle) {
    const int64_t starts = source.size() - options_.seq - 1;
    return pick.index % starts * options_.seq % starts;
  }
  const int64_t count = samples_of(source);
  const ShuffleKey key{.seed = options_.seed,
                       .source = static_cast<uint32_t>(pick.source),
                       .epoch = static_cast<uint64_t>(pick.index / count)};
  return shuffled(pick.index % count, count, key) * options_.seq;
}

BatchRows Batches::rows(int64_t step, int64_t lo, int64_t hi) const {
  TSR_CHECK(step >= 0, "step ", step, " must be at least 0");
  TSR_CHECK(0 <= lo && lo <= hi && hi <= options_.batch, "rows ", lo, " to ", hi,
            " are not in a batch of ", options_.batch);
  const int64_t first = checked_multiply(step, options_.batch, "step × batch");
  BatchRows out{.rows = hi - lo, .seq = options_.seq};
  std::vector<int64_t> sample(static_cast<size_t>(options_.seq) + 1);
  for (int64_t row = lo; row < hi; ++row) {
    const Mixture::Pick pick = mixture_.at(checked_add(first, row, "the number of a sample"));
    sources_[pick.source].read(begin_of(pick), sample);
    out.inputs.insert(out.inputs.end(), sample.begin(), sample.end() - 1);
    out.targets.insert(out.targets.end(), sample.begin() + 1, sample.end());
  }
  return out;
}

}  // namespace tessera
