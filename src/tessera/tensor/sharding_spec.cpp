#include "tessera/tensor/sharding_spec.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera {
namespace {

struct OwnedSpan {
  Span span;
  size_t rank = 0;
};

std::ostream& operator<<(std::ostream& out, const OwnedSpan& owned) {
  return out << "[" << owned.span.begin << "," << owned.span.end << ") of rank " << owned.rank;
}

int64_t numel_of(const std::vector<int64_t>& shape) {
  for (const int64_t size : shape) {
    TSR_CHECK(size >= 0, "shape (", join(shape, ","), ") has a size of ", size,
              "; tensor sizes must be ≥ 0");
  }
  return checked_product(shape, "the number of elements");
}

// Every non-empty run, sorted by its beginning.
std::vector<OwnedSpan> sorted_spans(const std::vector<FlatSpans>& offsets, int64_t numel) {
  std::vector<OwnedSpan> spans;
  for (size_t rank = 0; rank < offsets.size(); ++rank) {
    for (const Span& span : offsets[rank]) {
      const OwnedSpan owned{span, rank};
      TSR_CHECK(0 <= span.begin && span.begin <= span.end && span.end <= numel, "span ", owned,
                " is not in a tensor of ", numel,
                " elements; spans are [begin,end) with 0 <= begin <= end <= ", numel);
      if (span.size() > 0) spans.push_back(owned);
    }
  }
  std::ranges::sort(spans, {}, [](const OwnedSpan& owned) { return owned.span.begin; });
  return spans;
}

void check_cover(const std::vector<OwnedSpan>& spans, int64_t numel) {
  int64_t covered = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const int64_t begin = spans[i].span.begin;
    TSR_CHECK(begin >= covered, "spans ", spans[i == 0 ? 0 : i - 1], " and ", spans[i],
              " overlap; assign each element to one rank");
    TSR_CHECK(begin == covered, "no rank holds elements [", covered, ",", begin, ") of ", numel,
              "; the spans of all ranks must cover the tensor");
    covered = spans[i].span.end;
  }
  TSR_CHECK(covered == numel, "no rank holds elements [", covered, ",", numel, ") of ", numel,
            "; the spans of all ranks must cover the tensor");
}

}  // namespace

ShardingSpec::ShardingSpec(std::vector<int64_t> unsharded_shape,
                           std::vector<FlatSpans> unsharded_flattened_offsets)
    : shape_(std::move(unsharded_shape)),
      offsets_(std::move(unsharded_flattened_offsets)),
      numel_(numel_of(shape_)) {
  TSR_CHECK(!offsets_.empty(), "the sharding spec has no ranks; pass spans for each rank");
  check_cover(sorted_spans(offsets_, numel_), numel_);
  for (const FlatSpans& spans : offsets_) {
    int64_t numel = 0;
    for (const Span& span : spans) numel += span.size();
    numels_.push_back(numel);
  }
}

ShardingSpec ShardingSpec::even(std::vector<int64_t> unsharded_shape, int64_t num_ranks) {
  TSR_CHECK(num_ranks > 0, "a tensor cannot be sharded over ", num_ranks, " ranks; use at least 1");
  const int64_t numel = numel_of(unsharded_shape);
  std::vector<FlatSpans> offsets;
  for (int64_t rank = 0; rank < num_ranks; ++rank) {
    offsets.push_back({chunk(numel, num_ranks, rank)});
  }
  return {std::move(unsharded_shape), std::move(offsets)};
}

int64_t ShardingSpec::largest_shard() const {
  return *std::ranges::max_element(numels_);
}

std::ostream& operator<<(std::ostream& out, const ShardingSpec& spec) {
  out << "(" << join(spec.shape_, ",") << ") as ";
  const char* between = "";
  for (const FlatSpans& spans : spec.offsets_) {
    std::vector<std::string> runs;
    for (const Span& span : spans) runs.push_back(concat("[", span.begin, ",", span.end, ")"));
    out << between << (runs.empty() ? "nothing" : join(runs, "+"));
    between = " | ";
  }
  return out;
}

}  // namespace tessera
