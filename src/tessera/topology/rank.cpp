#include "tessera/topology/rank.h"

namespace tessera {

RankGroup to_ranks(const std::vector<int64_t>& values) {
  RankGroup ranks;
  ranks.reserve(values.size());
  for (const int64_t value : values) ranks.emplace_back(value);
  return ranks;
}

std::vector<int64_t> to_integers(const RankGroup& ranks) {
  std::vector<int64_t> values;
  values.reserve(ranks.size());
  for (const GlobalRank rank : ranks) values.push_back(rank.value);
  return values;
}

}  // namespace tessera
