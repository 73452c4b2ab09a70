#include "tessera/plan/parameter_place.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

/// A rank's index among the ranks along some axes.
struct Position {
  int64_t size;
  int64_t index;
};

Position position_of(const Plan& plan, GlobalRank rank, std::string_view group) {
  const RankGroup ranks = plan.group_of(rank, group).value_or(RankGroup{rank});
  return {.size = static_cast<int64_t>(ranks.size()),
          .index = std::ranges::find(ranks, rank) - ranks.begin()};
}

bool shards(const Plan& plan) {
  return plan.spec("dp_shard_cp").groups.size() > 1;
}

/// The axes of a plan that hold the parts of a parameter.
struct Axes {
  const char* tensor;  // Shards each parameter.
  const char* shards;  // The group that shards the flat buffer,
  AxisNames cut_over;  // and its axes.
};
const Axes kDense{"tp", "dp_shard_cp", {"dp_shard", "cp"}};
const Axes kExperts{"etp", "expert_shard", {"expert_shard"}};

void check_blocks(int64_t blocks, int64_t tp) {
  TSR_CHECK(blocks % tp == 0 || tp % blocks == 0, "tp ", tp, " neither divides ", blocks,
            " heads nor is a multiple of them; choose a divisor or a multiple of ", blocks);
}

void cut_for_tensor(ParameterPlace& place, const ParameterShape& parameter, Position tp,
                    const Axes& axes) {
  place.tensor_copies = tp.size;
  if (!parameter.tensor_dim || tp.size == 1) return;
  const int64_t blocks = parameter.tensor_blocks.value_or(tp.size);
  check_blocks(blocks, tp.size);
  const int64_t pieces = std::min(blocks, tp.size);
  place.tensor_copies = tp.size / pieces;
  place.part = place.part.cut(*parameter.tensor_dim, pieces, tp.index / place.tensor_copies);
  if (pieces > 1) place.cut_over.emplace_back(axes.tensor);
}

// Each parameter keeps the elements in this rank's piece of the flat buffer.
void cut_for_shards(std::vector<ParameterPlace>& places, Position shard, const Axes& axes) {
  std::vector<Part> parts;
  for (const ParameterPlace& place : places) parts.push_back(place.part);
  parts = cut_flat(parts, shard.size, shard.index);
  for (size_t i = 0; i < places.size(); ++i) {
    places[i].part = parts[i];
    places[i].cut_over.insert(places[i].cut_over.end(), axes.cut_over.begin(), axes.cut_over.end());
  }
}

// Equal copies lie along the axes of a norm group that do not cut the parameter; only their first
// rank counts. Along pp, the only copies are tied weights.
bool is_first_copy(const Plan& plan, GlobalRank rank, const AxisNames& cut_over) {
  const Layout& world = plan.layout("world");
  return std::ranges::all_of(plan.spec("norm").groups.axes(), [&](const std::string& axis) {
    const bool cut = axis == "pp" || std::ranges::find(cut_over, axis) != cut_over.end();
    return cut || world.coordinate(rank, axis) == 0;
  });
}

// Of the ranks of a norm group that hold the same part of an expert, the first counts.
bool is_first_holder(const Plan& plan, GlobalRank rank, const AxisNames& cut_over) {
  const Layout& experts = plan.layout("experts");
  const auto has_same = [&](GlobalRank other) {
    return std::ranges::all_of(experts.axes(), [&](const Axis& axis) {
      const std::string& name = axis.name();
      const bool cut = name == "pp" || name == "ep" || name == "etp" ||
                       std::ranges::find(cut_over, name) != cut_over.end();
      return !cut || experts.coordinate(other, name) == experts.coordinate(rank, name);
    });
  };
  const RankGroup norm = plan.group_of(rank, "norm").value_or(RankGroup{rank});
  return *std::ranges::find_if(norm, has_same) == rank;
}

}  // namespace

bool holds_expert(const Plan& plan, GlobalRank rank, const ExpertOf& expert) {
  const Position ep = position_of(plan, rank, "ep");
  TSR_CHECK(expert.count % ep.size == 0, "ep ", ep.size, " does not divide ", expert.count,
            " experts; choose a divisor of ", expert.count);
  return expert.index / (expert.count / ep.size) == ep.index;
}

std::vector<ParameterPlace> place_buffer(const Plan& plan, GlobalRank rank,
                                         std::span<const ParameterShape> parameters) {
  std::vector<ParameterPlace> places;
  const bool experts = !parameters.empty() && parameters[0].expert.has_value();
  const Axes& axes = experts ? kExperts : kDense;
  const Position tp = position_of(plan, rank, axes.tensor);
  for (const ParameterShape& parameter : parameters) {
    places.push_back({.part = Part(parameter.shape)});
    cut_for_tensor(places.back(), parameter, tp, axes);
    if (experts) places.back().grad_group = "expert_grad";
  }
  if (shards(plan)) cut_for_shards(places, position_of(plan, rank, axes.shards), axes);
  for (size_t i = 0; i < places.size(); ++i) {
    ParameterPlace& place = places[i];
    const bool first =
        experts ? is_first_holder(plan, rank, place.cut_over)
                : is_first_copy(plan, rank, place.cut_over) && tp.index % place.tensor_copies == 0;
    place.counts = !parameters[i].copy && first;
  }
  return places;
}

}  // namespace tessera
