#include "tessera/format/flight_difference.h"

#include <algorithm>
#include <map>

#include "tessera/base/text.h"

namespace tessera {
namespace {

// The properties that all ranks of an operation must share.
struct Common {
  bool outputs = false;  // Compares outputs; otherwise inputs.
  bool shapes = true;
};

Common common_of(const std::string& operation) {
  // Inputs of an all_gather and outputs of a reduce_scatter may be uneven.
  if (operation.starts_with("all_gather")) return {.outputs = true};
  if (operation.starts_with("recv")) return {.outputs = true};
  if (operation.starts_with("scatter")) return {.outputs = true, .shapes = false};
  if (operation.starts_with("gather")) return {.shapes = false};
  if (operation.starts_with("all_to_all")) return {.shapes = false};
  return {};
}

std::string shortened(const std::vector<std::string>& parts) {
  constexpr size_t kMost = 4;
  if (parts.size() <= kMost) return join(parts, " ");
  return concat(join(std::span(parts).first(kMost), " "), " … (", parts.size(), " tensors)");
}

struct Side {
  std::string key;   // Equal on ranks that agree.
  std::string what;  // For display.
};

Side side_of(const FlightGroup& group, const FlightEntry& entry) {
  const std::string name = operation_name(group, entry);
  const Common common = common_of(name);
  std::vector<std::string> parts;
  for (const FlightTensor& tensor : common.outputs ? entry.outputs : entry.inputs) {
    parts.push_back(common.shapes ? to_string(tensor) : tensor.dtype);
  }
  if (!common.shapes) {
    std::ranges::sort(parts);
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  }
  // A send and its recv have different names, but the same tensor.
  return {concat(entry.is_p2p ? "" : name, " ", join(parts, " ")),
          parts.empty() ? name : concat(name, " ", shortened(parts))};
}

std::vector<FlightVariant> variants_of(const FlightMatch& match) {
  std::map<std::string, FlightVariant> by_key;
  for (const auto& [dump, entry] : match.participants) {
    const Side side = side_of(group_of(*dump, *entry), *entry);
    FlightVariant& variant = by_key[side.key];
    variant.what = side.what;
    variant.ranks.push_back(dump->rank);
  }
  std::vector<FlightVariant> variants;
  for (auto& [key, variant] : by_key) {
    std::ranges::sort(variant.ranks);
    variants.push_back(std::move(variant));
  }
  std::ranges::stable_sort(variants, std::greater(),
                           [](const FlightVariant& variant) { return variant.ranks.size(); });
  return variants;
}

}  // namespace

std::vector<FlightDifference> differences_in(std::span<const FlightMatch> matches) {
  std::vector<FlightDifference> differences;
  for (const FlightMatch& match : matches) {
    std::vector<FlightVariant> variants = variants_of(match);
    if (variants.size() < 2) continue;
    const FlightEntry& entry = *match.participants.front().entry;
    differences.push_back(
        {{operation_name(*match.group, entry), match.sequence, label_of(*match.group)},
         std::move(variants)});
  }
  return differences;
}

}  // namespace tessera
