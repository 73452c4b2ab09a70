// Counts which ranks of random layouts hold, reduce, count and write each element of each parameter
// of a Llama.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>

#include "tessera/model/llama_units.h"
#include "tessera/plan/train_plan.h"
#include "tessera/schedule/choose.h"
#include "tessera/train/model_stage.h"

namespace tessera {
namespace {

// Most degrees do not divide these sizes; each ep divides the experts, if there are any.
LlamaConfig any_llama() {
  LlamaConfig config{.vocab_size = 10,
                     .hidden_size = 6,
                     .intermediate_size = 7,
                     .num_hidden_layers = *rc::gen::inRange<int64_t>(8, 10),
                     .num_attention_heads = 12,  // Each degree divides them.
                     .num_key_value_heads = *rc::gen::element(1, 12),
                     .head_dim = 2,
                     .tie_word_embeddings = *rc::gen::arbitrary<bool>(),
                     .attention_bias = *rc::gen::arbitrary<bool>()};
  if (*rc::gen::arbitrary<bool>()) {
    config.model_type = "qwen3_moe";
    config.qk_norm = true;
    config.num_experts = 12;
    config.moe_intermediate_size = 5;
    config.mlp_only_layers = {2};
  }
  return config;
}

// At most 64 ranks, each degree from 1 to 4.
ParallelDims any_dims() {
  ParallelDims dims;
  int64_t left = 64;
  for (int64_t ParallelDims::*degree :
       {&ParallelDims::pp, &ParallelDims::dp_replicate, &ParallelDims::dp_shard, &ParallelDims::cp,
        &ParallelDims::tp}) {
    dims.*degree = *rc::gen::inRange<int64_t>(1, std::min<int64_t>(left, 4) + 1);
    left /= dims.*degree;
  }
  dims.shard_cp = dims.dp_shard == 1 && *rc::gen::arbitrary<bool>();
  const int64_t ranks = dims.world() / dims.pp;
  while (ranks % (dims.ep = *rc::gen::inRange<int64_t>(1, 5)) != 0) {
  }
  while (ranks / dims.ep % (dims.etp = *rc::gen::inRange<int64_t>(1, 5)) != 0) {
  }
  return dims;
}

/// The counts of one element of one parameter.
struct Count {
  std::vector<GlobalRank> holders = {};
  std::map<RankGroup, int64_t> counted = {};  // By norm group.
};

/// The elements of a parameter, by their index in the full parameter.
struct Counts {
  std::vector<Count> elements = {};
  int64_t tensor_copies = 1;
  bool of_expert = false;
};

void add(const Parameter& parameter, const Plan& plan, GlobalRank rank, Counts& counts) {
  const Part& part = parameter.place.part;
  counts.elements.resize(static_cast<size_t>(Part(part.shape()).numel()));
  counts.tensor_copies = parameter.place.tensor_copies;
  counts.of_expert = parameter.expert.has_value();
  const RankGroup norm = *plan.group_of(rank, "norm");
  for (const Span& span : part.spans()) {
    for (int64_t i = span.begin; i < span.end; ++i) {
      Count& count = counts.elements[static_cast<size_t>(i)];
      count.holders.push_back(rank);
      count.counted[norm] += parameter.place.counts ? 1 : 0;
    }
  }
}

// The ranks whose gradients are summed in this rank's part: over its shard group, if the parameter
// is sharded over it, and over the replicas.
std::multiset<GlobalRank> summed_over(const Plan& plan, GlobalRank rank, const Parameter& p) {
  const std::vector<std::string>& cut = p.place.cut_over;
  const char* const axis = p.expert ? "expert_shard" : "dp_shard";
  const bool sharded = std::ranges::find(cut, axis) != cut.end();
  if (!sharded) {
    const RankGroup group = *plan.group_of(rank, p.place.grad_group);
    return {group.begin(), group.end()};
  }
  std::multiset<GlobalRank> ranks;
  const RankGroup copies = *plan.group_of(rank, p.expert ? "expert_replicate" : "dp_replicate");
  for (const GlobalRank copy : copies) {
    const RankGroup shards = *plan.group_of(copy, p.expert ? "expert_shard" : "dp_shard_cp");
    ranks.insert(shards.begin(), shards.end());
  }
  return ranks;
}

// Each holder of the same part of an expert once: others send it their tokens.
void check_expert_sum(const Plan& plan, const ParallelDims& dims, GlobalRank rank,
                      const Parameter& p) {
  const Layout& experts = plan.layout("experts");
  const std::multiset<GlobalRank> ranks = summed_over(plan, rank, p);
  for (const GlobalRank other : ranks) {
    for (const char* const axis : {"pp", "ep", "etp"}) {
      RC_ASSERT(experts.coordinate(other, axis) == experts.coordinate(rank, axis));
    }
  }
  RC_ASSERT(static_cast<int64_t>(ranks.size()) == dims.world() / dims.pp / dims.ep / dims.etp);
  RC_ASSERT(std::set(ranks.begin(), ranks.end()).size() == ranks.size());
}

// Each share of the data once; all of the same stage and tensor-parallel rank.
void check_sum(const Plan& plan, const ParallelDims& dims, GlobalRank rank, const Parameter& p) {
  const Layout& world = plan.layout("world");
  const std::multiset<GlobalRank> ranks = summed_over(plan, rank, p);
  std::set<Coordinate> shares;
  for (const GlobalRank other : ranks) {
    RC_ASSERT(world.coordinate(other, "pp") == world.coordinate(rank, "pp"));
    RC_ASSERT(world.coordinate(other, "tp") == world.coordinate(rank, "tp"));
    shares.insert(world.coordinate(other));
  }
  RC_ASSERT(static_cast<int64_t>(ranks.size()) == dims.dp_replicate * dims.dp_shard * dims.cp);
  RC_ASSERT(shares.size() == ranks.size());
}

int64_t expected_holders(const ParallelDims& dims, const Plan& plan, const Counts& counts) {
  if (counts.of_expert) {
    const Layout& experts = plan.layout("experts");
    const int64_t shards = experts.axis("expert_shard").size();
    return experts.axis("expert_replicate").size() * (dims.shards() > 1 ? 1 : shards);
  }
  const int64_t unsharded = dims.shards() > 1 ? 1 : dims.cp;
  return dims.dp_replicate * unsharded * counts.tensor_copies;
}

RC_GTEST_PROP(ParameterCount, EveryElementIsHeldSummedCountedAndWrittenAsOftenAsItShould, ()) {
  const LlamaConfig config = any_llama();
  const ParallelDims dims = any_dims();
  const char* const kind = *rc::gen::element("1f1b", "interleaved1f1b", "zbv");
  const Model model = llama_model(config);
  const Plan plan = train_plan(dims.world(), dims);
  const Schedule schedule =
      choose_schedule({.word = dims.pp == 1 ? "1f1b" : kind, .pp = dims.pp, .microbatches = 8});
  std::map<std::string, Counts> found;
  for (int64_t i = 0; i < dims.world(); ++i) {
    const GlobalRank rank{i};
    const GroupRank stage_rank{plan.layout("world").coordinate(rank, "pp")};
    std::vector<ModelStage> stages = build_stages(model, schedule, stage_rank);
    place_parameters(stages, model, plan, rank);
    for (const Parameter& parameter : trained_parameters(stages)) {
      add(parameter, plan, rank, found[parameter.name]);
      parameter.expert ? check_expert_sum(plan, dims, rank, parameter)
                       : check_sum(plan, dims, rank, parameter);
    }
  }
  RC_ASSERT(found.size() == [&] {
    std::set<std::string> names;
    for (const Unit& unit : model.build({0, model.num_units})) {
      for (const Parameter& p : unit.parameters) names.insert(p.name);
    }
    return names.size();
  }());
  // A tied head on another rank than its embedding is a second copy.
  const bool copied =
      !model.tied.empty() && schedule.rank_of(0) != schedule.rank_of(schedule.num_stages() - 1);
  for (const auto& [name, counts] : found) {
    const int64_t copies = copied && name == model.tied[0].name ? 2 : 1;
    for (const Count& count : counts.elements) {
      RC_ASSERT(static_cast<int64_t>(count.holders.size()) ==
                copies * expected_holders(dims, plan, counts));
      // Once per norm group, so once in norms, and in files, which the first group writes.
      RC_ASSERT(!count.counted.empty());
      for (const auto& [group, times] : count.counted) RC_ASSERT(times == 1);
      RC_ASSERT(count.counted.contains(*plan.group_of(GlobalRank{0}, "norm")));
    }
  }
}

}  // namespace
}  // namespace tessera
