#include <set>

#include "tests/e2e/altered_tables.h"
#include "tests/e2e/dice.h"

namespace tessera::golden {
namespace {

// Fields that hold the question, or what is not compared.
bool is_no_answer(const std::string& key) {
  static const std::set<std::string> kKeys{"id",
                                           "kind",
                                           "note",
                                           "error",
                                           "events",
                                           "message_contains",
                                           "groups_before_error",
                                           "args",
                                           "last_group_before_error",
                                           "state_after_error",
                                           "state_after_error_by_rank",
                                           "env",
                                           "world",
                                           "world_size",
                                           "rank",
                                           "cp",
                                           "dp",
                                           "ep",
                                           "pp",
                                           "tp",
                                           "order",
                                           "rank_offset",
                                           "token",
                                           "independent_ep",
                                           "parallel_size",
                                           "hierarchical_group_sizes",
                                           "create_gloo_process_groups",
                                           "group_desc",
                                           "pg_options",
                                           "python_specific",
                                           "use_tp_pp_dp_mapping",
                                           "input",
                                           "schedule",
                                           "stages_per_rank",
                                           "microbatches",
                                           "num_stages",
                                           "rows",
                                           "format",
                                           "text",
                                           "style",
                                           "size",
                                           "chunks",
                                           "degree",
                                           "n_layers",
                                           "num_microbatches",
                                           "batch",
                                           "loss",
                                           "scale",
                                           "factor",
                                           "args_everywhere",
                                           "mesh",
                                           "shape",
                                           "from",
                                           "to",
                                           "grad",
                                           "offsets",
                                           "dtype",
                                           "spec_shape",
                                           "group_ranks",
                                           "parameter",
                                           "global_shape",
                                           "mesh_shape",
                                           "mesh_ranks",
                                           "placements",
                                           "torch213_differs_on_rank",
                                           "distributed",
                                           "shared_filesytem",
                                           "timeout_s",
                                           "n",
                                           "backend",
                                           "pre_initialized_backend",
                                           "split_points",
                                           "published_ir_differs",
                                           "vocab",
                                           "per_partition",
                                           "divisible_by",
                                           "numerator",
                                           "denominator",
                                           "parts",
                                           "contiguous",
                                           "layer",
                                           "inputs",
                                           "outputs",
                                           "bias",
                                           "stride",
                                           "sequence_parallel",
                                           "heads",
                                           "kv_heads",
                                           "seq",
                                           "hidden",
                                           "gather_output",
                                           "input_is_parallel",
                                           "repeat",
                                           "then",
                                           "add_special",
                                           "tokenizer"};
  return kKeys.contains(key);
}

// Inside an answer only these are not compared.
bool is_not_compared(const std::string& key) {
  static const std::set<std::string> kKeys{
      "error",     "events",  "message_contains",           "device_ids", "after_groups", "seconds",
      "raised_by", "backend", "error_on_ranks_outside_mesh"};
  return kKeys.contains(key);
}

using Pointers = std::vector<json::json_pointer>;

void add_values(const json& value, const json::json_pointer& at, Pointers& out) {
  if (value.is_object()) {
    const bool event = value.contains("op") && value["op"] != "set_pg_timeout";
    if (value.contains("error") || event) return;
    for (const auto& [key, entry] : value.items()) {
      const bool listed = key == "ranks" && value.contains("sorted_ranks");  // Compared as sorted.
      if (!is_not_compared(key) && key != "op" && !listed) add_values(entry, at / key, out);
    }
  } else if (value.is_array()) {
    for (size_t i = 0; i < value.size(); ++i) add_values(value[i], at / i, out);
  } else if (!value.is_string() || !value.get<std::string>().starts_with('!')) {
    out.push_back(at);
  }
}

Pointers values_of_answer(const std::string& table, const json& one) {
  Pointers all;
  for (const auto& [key, value] : one.items()) {
    const json::json_pointer at = json::json_pointer() / key;
    if (table == "context_balance" && key != "expect") continue;  // All others are questions.
    if (key == "steps" && table == "megatron_groups") {
      for (size_t i = 0; i < value.size(); ++i) {
        add_values(value[i]["result"], at / i / "result", all);
      }
    } else if (key == "expect" && value.contains("steps")) {
      json compared = value;
      compared.erase("steps");
      add_values(compared, at, all);
    } else if (key == "ids" && one.contains("tokenizer")) {
      continue;  // The question of what is decoded.
    } else if (key == "mask" && one["kind"] == "masked") {
      continue;  // A question here.
    } else if (!is_no_answer(key) && key != "steps" && !one.contains("error")) {
      // The ranks of a group are a question in one table and an answer in another.
      if (key != "ranks" || value.is_object()) add_values(value, at, all);
    }
  }
  return all;
}

json other_than(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() + 1;
  if (value.is_string()) return value.get<std::string>() + "x";
  return 7;
}

// Where cases stand under their names: every one is changed.
void change_each(json& cases, const std::set<std::string>& excepted, Dice& dice, WrongTable& out) {
  json kept = json::object();
  for (const auto& [name, value] : cases.items()) {
    Pointers values;
    add_values(value, json::json_pointer(), values);
    if (values.empty() || excepted.contains(name)) continue;
    const json::json_pointer at = dice.one_of(values);
    kept[name] = value;
    kept[name][at] = other_than(value.at(at));
    out.ids.push_back(name);
  }
  cases = kept;
}

}  // namespace

WrongTable with_wrong_values(const std::string& name, const json& table, uint64_t seed,
                             const std::set<std::string>& excepted) {
  constexpr size_t kEachPart = 40;
  Dice dice(seed);
  WrongTable wrong{table, {}};
  if (name == "olmo_utils_collectives") {
    change_each(wrong.content["results"], excepted, dice, wrong);
    return wrong;
  }
  wrong.content.erase("get_reduce_divide_factor");
  for (const auto& [part, cases] : table.items()) {
    if (!is_list_of_cases(cases)) continue;
    wrong.content[part] = json::array();
    for (size_t i = 0; i < kEachPart; ++i) {
      json one = dice.one_of(cases);
      const std::string id = one.value("id", part);
      const Pointers values = values_of_answer(name, one);
      if (values.empty() || excepted.contains(id)) continue;
      const json::json_pointer at = dice.one_of(values);
      one[at] = other_than(one[at]);
      one["id"] = id + "#" + std::to_string(i) + at.to_string();
      wrong.ids.push_back(one["id"]);
      wrong.content[part].push_back(one);
    }
  }
  return wrong;
}

}  // namespace tessera::golden
