#include "tessera/plan/context_parallel.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/plan/context_layout.h"
#include "tessera/plan/head_split.h"
#include "tessera/plan/internal/head_degrees.h"
#include "tessera/plan/internal/sizes.h"

namespace tessera {
using namespace plan::detail;
namespace {

// Per tensor-parallel rank.
HeadCounts local_heads(const ContextParallelShape& shape) {
  const HeadSplit split = split_heads(shape.heads, shape.kv_heads, shape.tp, 0);
  return {split.query_heads.size(), split.kv_heads.size()};
}

std::string to_string(HeadCounts heads) {
  return concat(heads.query, " query heads and ", heads.kv,
                " key-value heads per tensor-parallel rank");
}

void check_ulysses(HeadCounts heads, int64_t degree, const char* what) {
  TSR_CHECK(divides_heads(heads, degree), what, " ", degree, " does not fit ", to_string(heads),
            ": it must divide the query heads, and divide the key-value heads or be a multiple of "
            "them; nearest legal degrees: ",
            join(nearest_degrees(heads, degree), ", "));
}

// "1·4, 2·2": every pair of sizes with this product whose first divides the heads.
std::string legal_sizes(int64_t cp, HeadCounts heads) {
  std::vector<std::string> pairs;
  for (int64_t inner = 1; inner <= std::min(cp, heads.query); ++inner) {
    if (cp % inner != 0 || !divides_heads(heads, inner)) continue;
    pairs.push_back(concat(inner, "·", cp / inner));
  }
  return join(pairs, ", ");
}

void check_sizes(const ContextParallelOptions& options, int64_t cp, HeadCounts heads) {
  const std::vector<int64_t>& sizes = options.sizes;
  for (const int64_t size : sizes) check_positive("a level of hierarchical cp", size);
  const int64_t product = checked_product(sizes, "the product of the hierarchical cp sizes");
  TSR_CHECK(sizes.size() == 2 && product == cp, "cp-type hierarchical with cp ", cp,
            " needs two sizes whose product is ", cp, ", but they are ",
            sizes.empty() ? "not given" : concat(join(sizes, "·"), " = ", product),
            "; legal sizes: ", legal_sizes(cp, heads));
  check_ulysses(heads, sizes[0], "the inner size");
}

void check_head_stride(int64_t stride, HeadCounts heads) {
  std::vector<int64_t> legal;
  for (int64_t divisor = 1; divisor <= heads.kv; ++divisor) {
    if (heads.kv % divisor == 0) legal.push_back(divisor);
  }
  TSR_CHECK(std::ranges::find(legal, stride) != legal.end(), "the head stride ", stride,
            " does not divide the ", heads.kv,
            " key-value heads per tensor-parallel rank; legal strides: ", join(legal, ", "));
}

}  // namespace

std::vector<std::string> context_parallel_types() {
  return {"ring", "all-gather", "ulysses", "hierarchical"};
}

void check_context_parallel(const ContextParallelOptions& options,
                            const ContextParallelShape& shape) {
  const std::vector<std::string> types = context_parallel_types();
  TSR_CHECK(std::ranges::find(types, options.type) != types.end(), "cp-type is '", options.type,
            "'; choose ", join(types, ", "), did_you_mean(options.type, types));
  check_context_layout(options.layout, shape.sequence, shape.cp);
  const HeadCounts heads = local_heads(shape);
  if (options.type == "hierarchical") {
    check_sizes(options, shape.cp, heads);
  } else {
    TSR_CHECK(options.sizes.empty(), "the sizes ", join(options.sizes, "·"),
              " need cp-type hierarchical, but it is ", options.type, "; leave one out");
  }
  if (options.type == "ulysses") check_ulysses(heads, shape.cp, "cp");
  if (options.type == "all-gather") check_head_stride(options.head_stride, heads);
}

}  // namespace tessera
