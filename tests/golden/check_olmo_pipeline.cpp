// olmo_pipeline: which stages a rank has, in which order ranks finish, and where a model is cut.
#include "tessera/base/error.h"
#include "tessera/plan/olmo/config.h"
#include "tessera/plan/olmo/json.h"
#include "tests/golden/golden.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using olmo::PipelineSplitStyle;
using olmo::TransformerPipelineParallelConfig;

TransformerPipelineParallelConfig config_of(const Json& test_case) {
  Json fields;
  for (const char* name : {"degree", "schedule", "style", "split_points"}) {
    fields[name] = value_or(test_case, name, nullptr);
  }
  return fields.get<TransformerPipelineParallelConfig>();
}

Json stage_ids(const TransformerPipelineParallelConfig& config, int64_t rank, int64_t num_stages) {
  return result_or_refusal([&] { return config.stage_ids_this_rank(rank, num_stages); });
}

void add_stages(Json& answer, const TransformerPipelineParallelConfig& config, int64_t num_stages) {
  answer["stage_ids_of_rank"] = Json::array();
  for (int64_t rank = 0; rank < config.degree; ++rank) {
    answer["stage_ids_of_rank"].push_back(stage_ids(config, rank, num_stages));
  }
  answer["stage_ids_of_rank_equal_to_degree"] = stage_ids(config, config.degree, num_stages);
}

Json blocks_of(std::vector<int64_t> begins, int64_t num_layers) {
  begins.insert(begins.begin(), 0);
  begins.push_back(num_layers);
  Json blocks = Json::array();
  for (size_t i = 1; i < begins.size(); ++i) blocks.push_back({begins[i - 1], begins[i]});
  return blocks;
}

Json answer_of(const Json& test_case) {
  const TransformerPipelineParallelConfig config = config_of(test_case);
  Json answer{{"is_single_stage", is_single_stage(config.schedule)},
              {"is_multi_stage", is_multi_stage(config.schedule)},
              {"default_style", to_string(default_style(config.schedule))},
              {"infer_style", to_string(config.infer_style())},
              {"final_stage_rank", config.final_stage_rank()},
              {"rank_completion_order", config.rank_completion_order()}};
  const Json layers = value_or(test_case, "n_layers", nullptr);
  if (layers.is_null()) {
    add_stages(answer, config, test_case.at("num_stages"));
    return answer;
  }
  const int64_t num_layers = layers;
  answer["split_points"] = result_or_refusal([&] { return config.get_split_points(num_layers); });
  if (answer["split_points"] == refusal()) return answer;
  const auto points = answer["split_points"].get<std::vector<int64_t>>();
  answer["blocks_of_stage"] = blocks_of(points, num_layers);
  answer["num_stages"] = points.size() + 1;
  add_stages(answer, config, answer["num_stages"]);
  return answer;
}

// Given points that do not rise from 0 to the number of layers.
bool has_bad_points(const Json& test_case) {
  const Json layers = value_or(test_case, "n_layers", nullptr);
  int64_t least = 0;
  for (const int64_t point : value_or(test_case, "split_points", Json::array())) {
    if (point < least || point > layers) return true;
    least = point + 1;
  }
  return false;
}

// What ours answers on purpose where the peer does not refuse.
const Rule* apply_rules(const Json& test_case, Json& expected) {
  if (has_bad_points(test_case)) {
    expected["split_points"] = refusal();
    for (const char* later : {"blocks_of_stage", "num_stages", "stage_ids_of_rank",
                              "stage_ids_of_rank_equal_to_degree"}) {
      expected.erase(later);
    }
    return &rules::kSplitPointsOutOfOrder;
  }
  Json* const beyond = expected.contains("stage_ids_of_rank_equal_to_degree")
                           ? &expected["stage_ids_of_rank_equal_to_degree"]
                           : nullptr;
  if (beyond == nullptr || *beyond == refusal()) return nullptr;
  *beyond = refusal();
  if (value_or(test_case, "num_stages", nullptr) != 0) return &rules::kStageRankOutOfRange;
  for (Json& stages : expected["stage_ids_of_rank"]) stages = refusal();
  return &rules::kNoStages;
}

Outcome check(const Json& test_case) {
  Json expected = errors_as_refusals(test_case.at("result"));
  const Rule* const rule = apply_rules(test_case, expected);
  return {expected, answer_of(test_case), rule};
}

}  // namespace

Table olmo_pipeline_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const Json& test_case : file.at("cases")) list.push_back({"pipeline", test_case});
    return list;
  };
  return {"olmo_pipeline", {{"pipeline", check}}, cases};
}

}  // namespace tessera::golden
