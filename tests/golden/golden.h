#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tessera/base/text.h"

namespace tessera::golden {

using Json = nlohmann::json;

/// A kind of input where Tessera answers otherwise than the peer on purpose.
struct Rule {
  std::string name;
  std::string reason;
};

/// A table names something that golden_check has no code for: neither side's answer is wrong.
class UnknownName : public std::runtime_error {
 public:
  UnknownName(const std::string& what, const std::string& name)
      : std::runtime_error(concat("golden_check does not know the ", what, " '", name, "'")) {}
};

/// What a registry holds under `name`; UnknownName where it holds nothing. `what` is a kind of
/// name, such as "operation".
template <class Registry>
const auto& known(const Registry& registry, const std::string& what, const std::string& name) {
  const auto at = registry.find(name);
  if (at == registry.end()) throw UnknownName(what, name);
  return at->second;
}

/// The value of a key that a case may leave out; an explicit null is the same.
inline Json value_or(const Json& object, const std::string& key, Json otherwise) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? std::move(otherwise) : *at;
}

/// What came of one case. It passes if `got` equals `expected`, which a rule may have replaced.
struct Outcome {
  Json expected;
  Json got;
  const Rule* rule = nullptr;
  std::string unknown = "";  // The message where the case names something unknown; it fails then.
};

using Check = std::function<Outcome(const Json& test_case)>;

/// One part of a table, with the code that recomputes its cases; null while there is none.
struct Part {
  std::string name;
  Check check;
};

/// One case of a table and the part that it belongs to.
struct Case {
  std::string part;
  Json content;
};

/// A kind of table, recognised by the file's name up to the first dot.
struct Table {
  std::string name;
  std::vector<Part> parts;
  std::function<std::vector<Case>(const Json& file)> cases;
};

Table megatron_groups_table();
Table nemo_mesh_table();
Table pipeline_table();
Table rank_generator_table();
Table olmo_mesh_table();
Table olmo_pipeline_table();
Table olmo_schedule_table();
Table olmo_step_table();
Table olmo_tensors_table();
Table olmo_utils_table();
Table olmo_utils_collectives_table();
Table olmo_flat_collectives_table();
Table dtensor_table();
Table tensor_parallel_table();
Table context_balance_table();
Table tokenizer_table();

/// Every table that this build has code for; those that need LibTorch are in builds with it.
std::vector<Table> torch_tables();
/// The parts of megatron_groups that need LibTorch; null in builds without.
Check megatron_getters_check();
Check megatron_lifecycle_check();
/// Those of olmo_mesh.
Check olmo_world_mesh_check();
Check olmo_expert_mesh_check();
/// The part of olmo_tensors that needs LibTorch; null in builds without.
Check olmo_sharded_flat_check();
/// The parts of tensor_parallel that split tensors and that run layers; null in builds without
/// LibTorch.
Check tensor_splits_check();
Check tensor_collectives_check();
/// The cases of the second, each with the answers of real ranks; as they are in builds without.
std::vector<Json> with_collectives(std::vector<Json> cases);
/// What a rank that golden_check started does: named by the table that started it.
int run_as_rank(const std::string& job);

/// The answer where an input must be refused: what `body` returns, or this where it throws
/// ConfigError. Other exceptions pass: they are failures.
Json refusal();
Json result_or_refusal(const std::function<Json()>& body);
/// Compares the answer with the expected one. If ours refuses this kind of input, which `rule`
/// says, a refusal is expected instead of the peer's answer.
Outcome judge(Json expected, const std::function<Json()>& answer, const Rule* rule);
/// A peer's answer in which every {"error": …} stands as the refusal.
Json errors_as_refusals(Json answer);

}  // namespace tessera::golden
