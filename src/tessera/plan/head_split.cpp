#include "tessera/plan/head_split.h"

#include <algorithm>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/plan/internal/head_degrees.h"
#include "tessera/plan/internal/sizes.h"

namespace tessera::plan::detail {
namespace {
constexpr int64_t kMostHeads = 1 << 20;  // Bounds the search for legal degrees.
}  // namespace

void check_heads(HeadCounts heads) {
  check_positive("heads", heads.query);
  check_positive("kv_heads", heads.kv);
  TSR_CHECK(heads.query <= kMostHeads, heads.query, " query heads are too many; the limit is ",
            kMostHeads);
  TSR_CHECK(heads.query % heads.kv == 0, heads.query, " query heads are not a multiple of ",
            heads.kv, " key-value heads; each key-value head serves equally many query heads");
}

bool divides_heads(HeadCounts heads, int64_t degree) {
  return heads.query % degree == 0 && (heads.kv % degree == 0 || degree % heads.kv == 0);
}

std::vector<int64_t> nearest_degrees(HeadCounts heads, int64_t degree) {
  std::vector<int64_t> nearest;
  int64_t below = std::min(degree, heads.query);
  while (!divides_heads(heads, below)) --below;
  nearest.push_back(below);
  for (int64_t above = degree + 1; above <= heads.query; ++above) {
    if (!divides_heads(heads, above)) continue;
    nearest.push_back(above);
    break;
  }
  return nearest;
}

}  // namespace tessera::plan::detail

namespace tessera {
using namespace plan::detail;

HeadSplit split_heads(int64_t heads, int64_t kv_heads, int64_t tp, int64_t rank) {
  const HeadCounts all{heads, kv_heads};
  check_heads(all);
  check_positive("tp", tp);
  TSR_CHECK(
      divides_heads(all, tp), "tp ", tp, " does not fit ", heads, " query heads and ", kv_heads,
      " key-value heads: tp must divide the query heads, and divide the key-value heads or be "
      "a multiple of them; nearest legal degrees: ",
      join(nearest_degrees(all, tp), ", "));
  TSR_CHECK(0 <= rank && rank < tp, "tensor-parallel rank ", rank, " is outside 0 to ", tp - 1);
  const int64_t sharing = std::max(tp / kv_heads, int64_t{1});
  const int64_t first = rank / sharing;  // Of kv_ranks, counted in groups of ranks that share.
  return {.query_heads = chunk(heads, tp, rank),
          .kv_heads = chunk(kv_heads, tp / sharing, first),
          .kv_ranks = {first * sharing, (first + 1) * sharing}};
}

}  // namespace tessera
