// Any order string and sizes: either refused by ConfigError, or the groups partition the ranks.
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/topology/rank_generator.h"

namespace {

// The first bytes are the sizes and the offset, the rest "order" or "order token".
constexpr size_t kNumbers = 6;

void check(const uint8_t* data, size_t size) {
  std::vector<int64_t> numbers;
  // Mostly small sizes, so that worlds stay small; 0 and below must be refused.
  for (size_t i = 0; i < kNumbers; ++i) numbers.push_back(static_cast<int64_t>(data[i] % 8) - 1);
  const std::string text(reinterpret_cast<const char*>(data) + kNumbers, size - kNumbers);
  const size_t space = text.find(' ');
  const std::string order = text.substr(0, space);
  const std::string token = space == std::string::npos ? "tp" : text.substr(space + 1);
  const tessera::RankGenerator generator(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4],
                                         order, numbers[5]);
  std::set<tessera::GlobalRank> seen;
  for (const tessera::RankGroup& group : generator.get_ranks(token)) {
    for (const tessera::GlobalRank rank : group) {
      if (!seen.insert(rank).second) std::abort();  // A rank in two groups of one kind.
    }
  }
  if (static_cast<int64_t>(seen.size()) != generator.world_size()) std::abort();
  if (seen.begin()->value != numbers[5]) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kNumbers) return 0;
  try {
    check(data, size);
  } catch (const tessera::ConfigError&) {
  }
  return 0;
}
