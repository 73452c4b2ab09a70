#include "tessera/topology/rank.h"

namespace tessera {

RankGroup to_ranks(const std::vector<int64_t>& values) {
  RankGroup ranks;
  ranks.reserve(values.size());
  for (const int64_t value : values) ranks.push_back({value});
  return ranks;
}

}  // namespace tessera
