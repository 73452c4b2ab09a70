#include "tests/golden/plan_json.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tessera::golden {

Json to_json(const RankGroup& group) {
  Json ranks = Json::array();
  for (const GlobalRank rank : group) ranks.push_back(rank.value);
  return ranks;
}

Json to_json(const GroupSpec& spec, const RankGroup& ranks) {
  Json entry{{"name", spec.name}, {"ranks", to_json(ranks)}};
  if (!std::ranges::is_sorted(ranks)) {
    RankGroup sorted = ranks;
    std::ranges::sort(sorted);
    entry["sorted_ranks"] = to_json(sorted);
  }
  if (spec.backend != GroupBackend::kDefault) entry["backend"] = to_string(spec.backend);
  return entry;
}

Json to_json(const NcclOptions& options) {
  Json json{{"is_high_priority_stream", options.high_priority_stream}};
  if (options.cga_cluster_size) json["cga_cluster_size"] = *options.cga_cluster_size;
  if (options.max_ctas) json["max_ctas"] = *options.max_ctas;
  if (options.min_ctas) json["min_ctas"] = *options.min_ctas;
  if (options.net_name) json["net_name"] = *options.net_name;
  return json;
}

std::string fnv1a64(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%016lx", static_cast<unsigned long>(hash));
  return digits.data();
}

}  // namespace tessera::golden
