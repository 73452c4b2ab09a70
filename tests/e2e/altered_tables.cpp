#include "tests/e2e/altered_tables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>

#include "tests/e2e/altered_context.h"
#include "tests/e2e/dice.h"

namespace tessera::golden {
namespace {

// ---- Defaults

using Defaults = std::map<std::string, json>;

void leave_out(json& object, const Defaults& defaults, Dice& dice) {
  for (const auto& [key, value] : defaults) {
    const bool is_default = object.contains(key) && (object[key] == value || object[key].is_null());
    if (is_default && dice.coin()) object.erase(key);
  }
}

void spell_out(json& object, const Defaults& defaults, Dice& dice) {
  for (const auto& [key, value] : defaults) {
    if (!object.contains(key) && dice.coin()) object[key] = dice.coin() ? value : json();
  }
}

// What each table's questions may leave out.
const std::map<std::string, Defaults>& defaults_of_tables() {
  static const std::map<std::string, Defaults> kDefaults{
      {"rank_generator",
       {{"tp", 1},
        {"ep", 1},
        {"dp", 1},
        {"pp", 1},
        {"cp", 1},
        {"rank_offset", 0},
        {"independent_ep", false},
        {"pg_options", nullptr},
        {"create_gloo_process_groups", false}}},
      {"olmo_mesh",
       {{"dp", nullptr},
        {"tp", nullptr},
        {"cp", nullptr},
        {"pp", nullptr},
        {"ep", nullptr},
        {"env", json::object()}}},
      {"olmo_pipeline", {{"style", nullptr}, {"split_points", nullptr}, {"n_layers", nullptr}}},
      {"olmo_schedule", {{"num_microbatches", nullptr}}},
      {"olmo_step",
       {{"num_microbatches", nullptr},
        {"factor", nullptr},
        {"scale", false},
        {"loss", true},
        {"steps", 1},
        {"args_everywhere", false}}},
      {"olmo_tensors",
       {{"offsets", nullptr}, {"dtype", "float32"}, {"torch213_differs_on_rank", json::object()}}},
      {"olmo_flat_collectives", {{"offsets", nullptr}, {"dtype", "float32"}, {"parameter", false}}},
      {"olmo_utils",
       {{"env", json::object()},
        {"timeout_s", 1800},
        {"shared_filesytem", true},
        {"pre_initialized_backend", nullptr}}},
      {"pipeline", {{"format", "compute_only"}}},
      {"dtensor", {{"grad", false}}}};
  return kDefaults;
}

const Defaults& megatron_defaults() {
  static const Defaults kDefaults{{"tensor_model_parallel_size", 1},
                                  {"pipeline_model_parallel_size", 1},
                                  {"virtual_pipeline_model_parallel_size", nullptr},
                                  {"pipeline_model_parallel_comm_backend", nullptr},
                                  {"use_sharp", false},
                                  {"context_parallel_size", 1},
                                  {"hierarchical_context_parallel_sizes", json::array()},
                                  {"hybrid_context_parallel", false},
                                  {"expert_model_parallel_size", 1},
                                  {"num_distributed_optimizer_instances", 1},
                                  {"expert_tensor_parallel_size", nullptr},
                                  {"nccl_communicator_config_path", nullptr},
                                  {"distributed_timeout_minutes", 30},
                                  {"order", "tp-cp-ep-dp-pp"},
                                  {"get_embedding_ranks", nullptr},
                                  {"get_position_embedding_ranks", nullptr},
                                  {"create_gloo_process_groups", true},
                                  {"high_priority_stream_groups", json::array()},
                                  {"sharp_enabled_group", nullptr},
                                  {"create_all_gather_group", false}};
  return kDefaults;
}

// ---- Texts of pipelines and placements

// White space where PyTorch's parser drops it, on both sides of parts.
std::string with_blanks(const std::string& text, Dice& dice) {
  if (text.empty()) return dice.blanks();
  std::string spread = dice.blanks();
  for (const char c : text) {
    if (c == ';' || c == ')') spread += dice.blanks();
    spread += c;
    if (c == ';' || c == '(') spread += dice.blanks();
  }
  return spread + dice.blanks();
}

void alter_pipeline(json& one, Dice& dice) {
  if (one.contains("text")) one["text"] = with_blanks(one["text"], dice);
  for (json& row : one.contains("rows") ? one["rows"] : one["none"]) {
    for (json& cell : row) {
      const std::string text = cell.is_null() ? "" : cell.get<std::string>();
      cell = text.empty() && dice.coin() ? json() : json(with_blanks(text, dice));
    }
  }
  one.erase("none");
}

void alter_dtensor(json& one, Dice& dice) {
  for (const char* side : {"from", "to"}) {
    for (json& placement : one[side]) {
      std::string spread;
      for (const char c : placement.get<std::string>()) {
        spread += c;
        if (c == '(' || c == ',') spread += dice.blanks();
      }
      placement = spread;
    }
  }
  if (dice.coin()) one["expect"].erase("steps");
}

// ---- Tensors

void replace_all(json& value, const json& from, const json& to) {
  if (value == from) value = to;
  if (!value.is_structured()) return;
  for (json& entry : value) replace_all(entry, from, to);
}

void alter_flat_tensor(json& one, Dice& dice, const std::vector<std::string>& dtypes) {
  const json before = one.value("dtype", json());
  if (!before.is_null()) replace_all(one, before, dice.one_of(dtypes));
  if (one.contains("group_ranks")) dice.shuffle(one["group_ranks"]);
}

// ---- Megatron

std::string with_blanks_in_call(const std::string& label, Dice& dice) {
  std::string spread;
  for (const char c : label) {
    spread += c;
    if (c == ',' || c == '(' || c == '=') spread += dice.blanks();
  }
  return spread;
}

/// Megatron's table: columns, arguments, steps.
class Megatron {
 public:
  Megatron(json& table, Dice& dice) : table_(table), dice_(dice) {}

  void alter() {
    // Steps first: they are made of the columns as they are.
    for (json& life : table_["lifecycle"]) alter_life(life);
    choose_columns("group_getters", "g");
    choose_columns("value_getters", "v");
    for (const char* kind : {"configs", "large"}) {
      for (json& one : table_[kind]) alter_config(one);
    }
  }

 private:
  // Another order of the columns, and some left out.
  void choose_columns(const char* labels, const char* column) {
    std::vector<size_t> chosen(table_[labels].size());
    std::iota(chosen.begin(), chosen.end(), 0);
    dice_.shuffle(chosen);
    chosen.resize(chosen.size() - 5);
    const auto choose = [&](json& list) {
      json picked = json::array();
      for (const size_t i : chosen) picked.push_back(list[i]);
      list = picked;
    };
    choose(table_[labels]);
    for (json& label : table_[labels]) label = with_blanks_in_call(label, dice_);
    for (const char* kind : {"configs", "large"}) {
      for (json& one : table_[kind]) {
        for (json& rank : one.contains("ranks") ? one["ranks"] : one["none"]) choose(rank[column]);
        one.erase("none");
      }
    }
    for (json& life : table_["lifecycle"]) {
      for (json& step : life["steps"]) {
        if (step["result"].contains(column)) choose(step["result"][column]);
      }
    }
  }

  void alter_arguments(json& arguments) {
    leave_out(arguments, megatron_defaults(), dice_);
    spell_out(arguments, megatron_defaults(), dice_);
  }

  void alter_config(json& one) {
    if (!one.contains("use_tp_pp_dp_mapping")) alter_arguments(one["args"]);
    if (!one.contains("groups")) return;
    for (json& group : one["groups"]) {
      if (!group.contains("opts") && dice_.coin()) group["opts"]["is_high_priority_stream"] = false;
    }
  }

  void alter_life(json& life) {
    use_other_dtypes(life);
    const bool stateless = std::ranges::all_of(life["steps"], [](const json& step) {
      const std::string kind = step["op"][0];
      return kind == "nccl_options" || kind == "overwrite" || kind.starts_with("default_");
    });
    json steps = json::array();
    for (json step : life["steps"]) {
      alter_step(step);
      steps.push_back(step);
      if (step["op"][0] == "snapshot") add_getters(step["result"], steps);
      if (step["op"][0] == "groups") add_timeouts(step["result"], life["steps"], steps);
    }
    if (stateless) dice_.shuffle(steps);
    life["steps"] = steps;
  }

  // Sections that Megatron does not know, and with them the same answer.
  void alter_step(json& step) {
    json& op = step["op"];
    if (op[0] == "init") alter_arguments(op[1]);
    const bool takes_options = op[0] == "nccl_options" || op[0] == "overwrite";
    if (!takes_options || step["result"].contains("error") || dice_.coin()) return;
    const json unknown{{"max_ctas", dice_.below(9)}};
    if (op[0] == "nccl_options") op[2]["no_such_section"] = unknown;
    if (op[0] != "overwrite") return;
    op[1]["no_such_section"] = unknown;
    step["result"]["no_such_section"] = unknown;
  }

  // The same questions one by one, in another order.
  void add_getters(const json& snapshot, json& steps) {
    for (const auto& [labels, column, kind] :
         {std::tuple{"group_getters", "g", "group"}, std::tuple{"value_getters", "v", "value"}}) {
      for (int i = 0; i < 12; ++i) {
        const size_t at = dice_.below(table_[labels].size());
        const std::string label = table_[labels][at];
        json op{kind, label};
        if (dice_.coin()) op[1] = with_blanks_in_call(label, dice_);
        if (label.ends_with("()") && dice_.coin()) op[1] = label.substr(0, label.size() - 2);
        steps.push_back({{"op", op}, {"result", snapshot[column][at]}});
      }
    }
  }

  // Another time-out for the group of each of these getters, which `groups` tells the index of.
  void add_timeouts(const json& groups, const json& before, json& steps) {
    const int64_t rank = before[0]["op"][1];
    std::vector<std::pair<std::string, std::string>> getters{
        {"get_tensor_model_parallel_group", "TENSOR_MODEL_PARALLEL_GROUP"},
        {"get_pipeline_model_parallel_group", "PIPELINE_MODEL_PARALLEL_GROUP"},
        {"get_model_parallel_group", "MODEL_PARALLEL_GROUP"},
        {"get_data_parallel_group", "DATA_PARALLEL_GROUP"},
        {"get_data_parallel_group_gloo", "DATA_PARALLEL_GROUP_GLOO"},
        {"get_context_parallel_group", "CONTEXT_PARALLEL_GROUP"},
        {"get_embedding_group", "EMBEDDING_GROUP"},
        {"get_expert_model_parallel_group", "EXPERT_MODEL_PARALLEL_GROUP"},
        {"get_expert_data_parallel_group", "EXPERT_DATA_PARALLEL_GROUP"},
        {"get_tensor_and_context_parallel_group", "TENSOR_AND_CONTEXT_PARALLEL_GROUP"}};
    dice_.shuffle(getters);
    for (const auto& [getter, group] : getters) {
      for (size_t i = 0; i < groups.size(); ++i) {
        const json& ranks = groups[i]["ranks"];
        const bool member = std::ranges::find(ranks, json(rank)) != ranks.end();
        if (groups[i]["name"] != group || !member) continue;
        const json seconds = dice_.coin() ? json(600) : json(45.5);
        steps.push_back({{"op", {"update_pg_timeout", seconds, getter}},
                         {"result", {{{"op", "set_pg_timeout"}, {"group", i}}}}});
      }
    }
  }

  void use_other_dtypes(json& life) {
    std::vector<std::string> dtypes{"float64",    "bfloat16", "int8",   "uint8",
                                    "bool",       "int16",    "int32",  "complex64",
                                    "complex128", "float",    "uint16", "torch.int64"};
    dice_.shuffle(dtypes);
    std::map<std::string, std::string> chosen;
    for (json& step : life["steps"]) {
      if (step["op"][0] != "buffer") continue;
      const std::string before = step["op"][2];
      if (!chosen.contains(before)) chosen[before] = dtypes.at(chosen.size());
      step["op"][2] = chosen[before];
    }
  }

  json& table_;
  Dice& dice_;
};

// ---- Calls on real ranks, with other numbers

json on_each(size_t ranks, const json& answer) {
  return json(ranks, answer);
}

void alter_collectives(json& table, Dice& dice) {
  json& results = table["results"];
  const auto a = static_cast<int64_t>(3 + dice.below(90));
  const std::string number = std::to_string(a);
  results.erase("synchronize_value(int 7+rank, src=1)");
  results["synchronize_value(int " + number + "+rank, src=2)"] =
      on_each(3, {{"value", a + 2}, {"type", "int"}});
  results["synchronize_value(int " + number + "*rank - 2**20, src=1)"] =
      on_each(3, {{"value", a - (1 << 20)}, {"type", "int"}});
  results["all_reduce_value(int rank*" + number + ", MIN)"] =
      on_each(3, {{"value", 0}, {"type", "int"}});
  results["all_reduce_value(float 0.5+rank)"] = on_each(3, {{"value", 4.5}, {"type", "float"}});
  results["synchronize_flag(rank!=1)"] = on_each(3, {{"value", true}, {"type", "bool"}});
  results["sub all_reduce_value(int rank)"] =
      json{nullptr, {{"value", 3}, {"type", "int"}}, {{"value", 3}, {"type", "int"}}};
}

// ---- Tensor-parallel layers, with other sizes

const Defaults& defaults_of_kind(const std::string& kind) {
  static const Defaults kShard{{"stride", 1}, {"bias", false}, {"sequence_parallel", false}};
  static const Defaults kSplit{{"contiguous", false}};
  static const Defaults kCollectives{{"gather_output", false},
                                     {"input_is_parallel", true},
                                     {"sequence_parallel", false},
                                     {"seq", 4},
                                     {"batch", 1},
                                     {"hidden", 4}};
  static const Defaults kNone;
  if (kind == "shard") return kShard;
  if (kind == "split_last_dim") return kSplit;
  return kind == "collectives" ? kCollectives : kNone;
}

void scale(json& value, int64_t factor) {
  if (value.is_number()) value = value.get<int64_t>() * factor;
  if (!value.is_array()) return;
  for (json& entry : value) scale(entry, factor);
}

// The same vocabulary, weight or heads, some times as large.
void enlarge(json& one, int64_t factor) {
  const std::string kind = one["kind"];
  json& expect = one["expect"];
  if (expect.contains("error")) return;
  if (kind == "vocab_range") {
    scale(one["vocab"], factor);
    scale(expect["ranks"], factor);
  }
  if (kind == "divide") {
    scale(one["numerator"], factor);
    scale(expect["quotient"], factor);
  }
  if (kind == "padded_vocab" && one["divisible_by"] > 0) {
    scale(one["vocab"], factor);
    scale(one["divisible_by"], factor);
    for (json& size : expect) scale(size, factor);
  }
  if (kind == "shard" && one["layer"] != "row") {
    scale(one[one["layer"] == "column" ? "outputs" : "vocab"], factor);
    for (json& rank : expect["ranks"]) {
      for (const char* key : {"rows", "bias", "vocab"}) {
        if (rank.contains(key)) scale(rank[key], factor);
      }
      scale(rank["weight"][0], factor);
    }
  }
}

void alter_tensor_parallel(json& one, Dice& dice) {
  const Defaults& defaults = defaults_of_kind(one["kind"]);
  leave_out(one, defaults, dice);
  spell_out(one, defaults, dice);
  enlarge(one, static_cast<int64_t>(1 + dice.below(5)));
}

// ---- Tokenizers: ids in runs or one by one, a repeated text written out

json in_runs(const json& ids) {
  json runs = json::array();
  for (const json& id : ids) {
    if (!runs.empty() && runs.back()[0] == id) {
      runs.back()[1] = runs.back()[1].get<int64_t>() + 1;
    } else {
      runs.push_back({id, 1});
    }
  }
  return runs;
}

void alter_tokenizer(json& one, Dice& dice) {
  if (!one.contains("expect")) return;
  const Defaults defaults{{"then", ""}, {"add_special", true}};
  leave_out(one, defaults, dice);
  spell_out(one, defaults, dice);
  for (json& expect : one["expect"]) {
    if (expect.contains("ids") && dice.coin()) {
      expect["ids_rle"] = in_runs(expect["ids"]);
      expect.erase("ids");
    }
    if (!expect.contains("decoded") && !one.contains("repeat") && dice.coin()) {
      const bool goes_on = one.contains("then") && one["then"].is_string();
      expect["decoded"] =
          one["text"].get<std::string>() + (goes_on ? one["then"].get<std::string>() : "");
    }
  }
}

// ---- Any table

void alter_case(const std::string& name, json& one, Dice& dice) {
  if (name == "pipeline") alter_pipeline(one, dice);
  if (name == "dtensor") alter_dtensor(one, dice);
  if (name == "tensor_parallel") alter_tensor_parallel(one, dice);
  if (name == "context_balance") alter_context_balance(one, dice);
  if (name == "tokenizer") alter_tokenizer(one, dice);
  if (name == "olmo_tensors") {
    alter_flat_tensor(one, dice,
                      {"float32", "float64", "float16", "bfloat16", "int64", "int32", "int16",
                       "int8", "uint8", "torch.float32", "double"});
  }
  if (name == "olmo_flat_collectives") {
    alter_flat_tensor(one, dice, {"float32", "float64", "int64", "int32"});
  }
  const auto defaults = defaults_of_tables().find(name);
  if (defaults != defaults_of_tables().end()) leave_out(one, defaults->second, dice);
  if (name == "olmo_mesh" && one.contains("dp") && one["dp"].is_object()) {
    leave_out(one["dp"], {{"num_replicas", nullptr}, {"shard_degree", nullptr}}, dice);
  }
  if (name == "nemo_mesh") {
    leave_out(one["input"],
              {{"dp_size", nullptr},
               {"dp_replicate_size", nullptr},
               {"tp_size", 1},
               {"pp_size", 1},
               {"cp_size", 1},
               {"ep_size", 1}},
              dice);
  }
  if (dice.coin()) one["note"] = "altered";
}

}  // namespace

json altered(const std::string& name, json table, uint64_t seed) {
  Dice dice(seed);
  if (name == "megatron_groups") Megatron(table, dice).alter();
  if (name == "olmo_utils_collectives") alter_collectives(table, dice);
  for (const auto& [part, cases] : table.items()) {
    if (!is_list_of_cases(cases)) continue;
    for (size_t i = 0; i < cases.size(); ++i) {
      alter_case(name, cases[i], dice);
      const std::string id = part + " " + std::to_string(i);
      cases[i]["id"] = (cases[i].contains("id") ? cases[i]["id"].get<std::string>() : id) + "~";
    }
    dice.shuffle(cases);
  }
  return table;
}

}  // namespace tessera::golden
