#include "tests/golden/megatron_life.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/dialect/megatron/memory_buffer.h"
#include "tessera/dialect/megatron/parallel_state.h"
#include "tests/golden/dtypes.h"
#include "tests/golden/megatron_case.h"
#include "tests/golden/megatron_variables.h"
#include "tests/golden/plan_json.h"

namespace tessera::golden {
namespace {

namespace m = tessera::megatron;
using std::chrono::milliseconds;

milliseconds to_milliseconds(const Json& seconds) {
  return milliseconds(static_cast<int64_t>(1000 * seconds.get<double>()));
}

using Setter = void (*)(std::optional<int64_t>);

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> kSetters{
      {"set_tensor_model_parallel_world_size", m::set_tensor_model_parallel_world_size},
      {"set_tensor_model_parallel_rank", m::set_tensor_model_parallel_rank},
      {"set_pipeline_model_parallel_world_size", m::set_pipeline_model_parallel_world_size},
      {"set_pipeline_model_parallel_rank", m::set_pipeline_model_parallel_rank},
      {"set_data_parallel_rank", m::set_data_parallel_rank},
      {"set_expert_model_parallel_world_size", m::set_expert_model_parallel_world_size},
      {"set_expert_model_parallel_rank", m::set_expert_model_parallel_rank},
      {"set_expert_tensor_parallel_world_size", m::set_expert_tensor_parallel_world_size},
      {"set_expert_tensor_parallel_rank", m::set_expert_tensor_parallel_rank},
      {"set_virtual_pipeline_model_parallel_world_size",
       m::set_virtual_pipeline_model_parallel_world_size},
      {"set_virtual_pipeline_model_parallel_rank", m::set_virtual_pipeline_model_parallel_rank},
  };
  return kSetters;
}

const std::map<std::string, void (*)()>& calls() {
  static const std::map<std::string, void (*)()> kCalls{
      {"destroy_model_parallel", m::destroy_model_parallel},
      {"_set_global_memory_buffer", m::_set_global_memory_buffer},
      {"destroy_global_memory_buffer", m::destroy_global_memory_buffer},
      {"_set_global_symmetric_memory_buffer", m::_set_global_symmetric_memory_buffer},
      {"destroy_global_symmetric_memory_buffer", m::destroy_global_symmetric_memory_buffer},
  };
  return kCalls;
}

// The getter that an operation names, as "get_x" with its arguments behind or as
// "get_x(flag=True)".
Call call_of(const Json& op, size_t at) {
  Call call = parse_call(op.at(at));
  if (op.size() > at + 1 && op[at + 1].is_object()) call.arguments.update(op[at + 1]);
  return call;
}

// Gives all groups of this process other time-outs while it lives, so that the one that is set
// afterwards shows where it was set.
class MarkedTimeouts {
 public:
  explicit MarkedTimeouts(milliseconds mark) : world_before_(World::current()->group().timeout()) {
    World::current()->set_timeout(mark);
    for (const Group& group : m::parallel_state().groups()) {
      before_.emplace_back(group, group.timeout());
      group.set_timeout(mark);
    }
  }

  /// Takes the marks off. Which groups had the time-out: null is the world.
  Json finish(milliseconds timeout, const IndexOf& index_of) {
    Json set = Json::array();
    if (World::current()->group().timeout() == timeout) {
      set.push_back(nullptr);
    } else {
      World::current()->set_timeout(world_before_);
    }
    for (const auto& [group, before] : before_) {
      if (group.timeout() == timeout) {
        set.push_back(index_of(group));
      } else {
        group.set_timeout(before);
      }
    }
    return set;
  }

 private:
  milliseconds world_before_;
  std::vector<std::pair<Group, milliseconds>> before_;
};

// The peer's keyword arguments of create_group.
struct CreateArguments {
  m::Ranks ranks;
  std::optional<milliseconds> timeout;
  std::optional<std::string> backend;
  std::optional<NcclOptions> options;
  bool use_local_synchronization = false;
  std::optional<std::string> name;

  explicit CreateArguments(Json given) {
    const auto take = [&](const char* key, const auto& set) {
      const Json value = value_or(given, key, nullptr);
      if (!value.is_null()) set(value);
      given.erase(key);
    };
    take("ranks", [&](const Json& value) { ranks = value.get<m::Ranks>(); });
    take("timeout", [&](const Json& value) { timeout = to_milliseconds(value); });
    take("backend", [&](const Json& value) { backend = value; });
    take("group_desc", [&](const Json& value) { name = value; });
    take("use_local_synchronization",
         [&](const Json& value) { use_local_synchronization = value; });
    take("pg_options", [&](const Json& value) {
      options = parse_nccl_config(Json{{"tp", value}}.dump(1), "the table").at("tp");
    });
    if (!given.empty()) throw UnknownName("argument", given.begin().key());
  }
};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Life::Life(const Json& test_case) : test_case_(test_case), surroundings_(Json::object()) {
  m::destroy_model_parallel();  // What an earlier life has set without a world.
}

const std::map<std::string, Life::Operation>& Life::operations() {
  static const std::map<std::string, Operation> kOperations{
      {"init_dist", &Life::init_dist},
      {"init", &Life::init},
      {"snapshot", &Life::take_snapshot},
      {"snapshot_msg", &Life::take_snapshot},
      {"value", &Life::getter},
      {"group", &Life::getter},
      {"call", &Life::call},
      {"globals_not_none", &Life::globals_not_none},
      {"groups", &Life::groups},
      {"update_pg_timeout", &Life::update_pg_timeout},
      {"create_group", &Life::create_group},
      {"nccl_options", &Life::nccl_options},
      {"overwrite", &Life::overwrite},
      {"default_embedding_ranks", &Life::embedding_ranks},
      {"default_position_embedding_ranks", &Life::embedding_ranks},
      {"buffer", &Life::buffer},
  };
  return kOperations;
}

Json Life::answer(const Json& op) {
  const Operation operation = known(operations(), "operation", op.at(0));
  return answer_or_refusal([&] { return (this->*operation)(op); });
}

Json Life::index_of(const Group& group) const {
  for (const auto& [made, index] : made_by_hand_) {
    if (&made.state() == &group.state()) return index;
  }
  return index_in_plan(group, first_planned_);
}

Json Life::init_dist(const Json& op) {
  World::make_current(World::fake(GlobalRank{op.at(1).get<int64_t>()}, op.at(2)));
  return nullptr;
}

Json Life::init(const Json& op) {
  const MegatronArguments arguments(arguments_of({{"args", op.at(1)}}));
  m::initialize_model_parallel(arguments.config());
  const Plan& plan = m::parallel_state().plan();
  first_planned_ = num_groups_;
  num_groups_ += plan.num_groups();
  plan.for_each_group([&](const GroupSpec& spec, const RankGroup& ranks) {
    all_groups_.push_back({{"name", spec.name}, {"ranks", to_json(ranks)}});
  });
  return {{"new_groups", plan.num_groups()}};
}

Json Life::take_snapshot(const Json&) {
  return snapshot(test_case_, [&](const Group& group) { return index_of(group); });
}

Json Life::getter(const Json& op) {
  return answer_of(call_of(op, 1), [&](const Group& group) { return index_of(group); });
}

Json Life::call(const Json& op) {
  const std::string name = op.at(1);
  if (op.size() == 2) {
    known(calls(), "function", name)();
    if (name == "destroy_model_parallel") made_groups_ = false;
  } else {
    const Json& value = op[2];
    known(setters(), "setter",
          name)(value.is_null() ? std::nullopt : std::optional<int64_t>(value));
  }
  return nullptr;
}

Json Life::globals_not_none(const Json&) {
  return held_variables(made_groups_);
}

Json Life::groups(const Json&) {
  return all_groups_;
}

Json Life::update_pg_timeout(const Json& op) {
  const milliseconds timeout = to_milliseconds(op.at(1));
  const bool all = op.size() < 3 || op[2].is_null();
  const std::optional<Group> group = all ? std::nullopt : group_of(call_of(op, 2));
  if (World::current() == nullptr) throw StateError("there is no world");
  MarkedTimeouts marked(timeout + milliseconds(1));
  const auto finish = [&] {
    return marked.finish(timeout, [&](const Group& g) { return index_of(g); });
  };
  try {
    m::update_pg_timeout(timeout, group);
  } catch (...) {
    finish();
    throw;
  }
  return finish();
}

Json Life::create_group(const Json& op) {
  const CreateArguments arguments(op.at(1));
  if (World::current() == nullptr) throw StateError("there is no world");
  // Megatron fails on none, but PyTorch has made a group of all ranks then.
  if (arguments.ranks.empty() && value_or(op[1], "ranks", nullptr).is_null()) ++num_groups_;
  const Group group =
      m::create_group(arguments.ranks, arguments.timeout, arguments.backend, arguments.options,
                      arguments.use_local_synchronization, arguments.name);
  made_groups_ = true;
  const int64_t index = num_groups_++;
  made_by_hand_.emplace_back(group, index);
  Json answer{{"index", group.is_member() ? Json(index) : Json("NON_GROUP_MEMBER")},
              {"ranks", to_json(RankGroup(group.ranks().begin(), group.ranks().end()))},
              {"list_len", m::parallel_state().groups().size() + 1}};
  all_groups_.push_back(
      {{"name", arguments.name ? Json(*arguments.name) : Json()}, {"ranks", arguments.ranks}});
  if (arguments.name) answer["name"] = group.name();
  if (arguments.timeout) answer["timeout_s"] = static_cast<double>(group.timeout().count()) / 1000;
  return answer;
}

Json Life::nccl_options(const Json& op) {
  const NcclConfig config = parse_nccl_config(op.at(2).dump(1), "the table");
  const auto options = m::get_nccl_options(op.at(1), config);
  return options ? to_json(*options) : Json(nullptr);
}

Json Life::overwrite(const Json& op) {
  NcclConfig config = parse_nccl_config(op.at(1).dump(1), "the table");
  m::overwrite_nccl_comm_cfgs(config, op.at(2), {op.at(3).at(0), text_of(op.at(3).at(1))});
  Json sections = Json::object();
  for (const auto& [name, options] : config) sections[name] = to_json(options);
  return sections;
}

Json Life::embedding_ranks(const Json& op) {
  return op.at(0) == "default_embedding_ranks" ? m::default_embedding_ranks(op.at(1))
                                               : m::default_position_embedding_ranks(op.at(1));
}

// A storage that was not seen before is a new one.
Json Life::buffer(const Json& op) {
  m::GlobalMemoryBuffer& buffers = m::get_global_memory_buffer();
  const at::Tensor tensor =
      buffers.get_tensor(op.at(1).get<std::vector<int64_t>>(), dtype_named(op.at(2)), op.at(3));
  const bool reallocated =
      std::ranges::none_of(buffers_, [&](const at::Tensor& t) { return t.is_alias_of(tensor); });
  buffers_.push_back(tensor);
  return {{"shape", tensor.sizes().vec()},
          {"buffer_numel", tensor.storage().nbytes() / tensor.element_size()},
          {"reallocated", reallocated},
          {"offset", tensor.storage_offset()},
          {"num_buffers", buffers.num_buffers()}};
}

}  // namespace tessera::golden
