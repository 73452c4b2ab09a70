#pragma once

#include <cstdint>
#include <vector>

/// Degrees by which attention heads divide: those of tensor parallelism and of Ulysses.
namespace tessera::plan::detail {

struct HeadCounts {
  int64_t query;
  int64_t kv;
};

/// ConfigError unless the query heads are a multiple of the key-value heads.
void check_heads(HeadCounts heads);
/// Whether the degree divides the query heads, and divides the key-value heads or is a multiple.
bool divides_heads(HeadCounts heads, int64_t degree);
/// The next such degrees below and above; above the number of query heads there is none.
std::vector<int64_t> nearest_degrees(HeadCounts heads, int64_t degree);

}  // namespace tessera::plan::detail
