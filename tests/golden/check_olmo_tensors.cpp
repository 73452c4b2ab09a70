// olmo_tensors: where shards lie, and OLMo-core's flat sharded tensors.
#include "tessera/base/check.h"
#include "tessera/topology/box.h"
#include "tessera/topology/layout.h"
#include "tests/golden/golden.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using Shape = std::vector<int64_t>;

// "S0", "S-1", "R", "P".
Placement placement_of(const std::string& text) {
  if (text == "R") return Replicate{};
  if (text == "P") return Partial{};
  const auto dim = text.starts_with("S") ? to_integer(text.substr(1)) : std::nullopt;
  if (!dim) throw UnknownName("placement", text);
  return Shard{*dim};
}

Layout mesh_of(const Json& test_case) {
  std::vector<AxisSize> axes;
  for (const int64_t size : test_case.at("mesh_shape").get<Shape>()) {
    axes.push_back({concat("axis ", axes.size()), size});
  }
  const RankGroup ranks = to_ranks(test_case.at("mesh_ranks").get<Shape>());
  for (const GlobalRank rank : ranks) {
    TSR_CHECK(rank.value < test_case.at("world_size"), "rank ", rank, " is outside the world");
  }
  return Layout::from_ranks(axes, ranks);
}

Json to_json(const Box& box) {
  return {box.shape, box.offset};
}

Json boxes_of(const Json& test_case) {
  const Layout mesh = mesh_of(test_case);
  std::vector<Placement> placements;
  for (const Json& text : test_case.at("placements")) placements.push_back(placement_of(text));
  Json per_rank = Json::array();
  for (int64_t rank = 0; rank < test_case.at("world_size"); ++rank) {
    if (!mesh.contains(GlobalRank{rank})) {
      per_rank.push_back(to_json(Box{}));
      continue;
    }
    per_rank.push_back(to_json(compute_local_shape_and_global_offset(
        test_case.at("global_shape").get<Shape>(), test_case.at("mesh_shape").get<Shape>(),
        mesh.coordinate(GlobalRank{rank}), placements)));
  }
  return per_rank;
}

bool is_empty_shard(const Json& box) {
  const Shape shape = box.at(0);
  return std::ranges::find(shape, 0) != shape.end();
}

// Replaces the peer's answer by PyTorch's on those ranks where both say that the shard is empty.
bool take_empty_offsets_of_pytorch(const Json& test_case, Json& per_rank) {
  bool changed = false;
  const Json differing = value_or(test_case, "torch213_differs_on_rank", Json::object());
  for (const auto& [rank, box] : differing.items()) {
    Json& ours = per_rank.at(std::stoul(rank));
    if (box.at(0) != ours.at(0) || !is_empty_shard(box)) continue;
    ours = box;
    changed = true;
  }
  return changed;
}

Outcome check_local_shape_and_offset(const Json& test_case) {
  const auto answer = [&] { return boxes_of(test_case); };
  const Json& result = test_case.at("result");
  if (result.contains("error")) return {refusal(), result_or_refusal(answer)};
  Json expected = result.at("per_rank");
  const bool changed = take_empty_offsets_of_pytorch(test_case, expected);
  return {expected, result_or_refusal(answer), changed ? &rules::kEmptyShardOffset : nullptr};
}

}  // namespace

Table olmo_tensors_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const auto& [part, test_cases] : file.items()) {
      if (!test_cases.is_array()) continue;  // What explains the table is an object.
      for (const Json& test_case : test_cases) list.push_back({part, test_case});
    }
    return list;
  };
  return {"olmo_tensors",
          {{"local_shape_and_offset", check_local_shape_and_offset},
           {"sharded_flat", olmo_sharded_flat_check()}},
          cases};
}

}  // namespace tessera::golden
