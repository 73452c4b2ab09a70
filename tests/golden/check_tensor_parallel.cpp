// tensor_parallel: the vocabulary, weights, heads and tensors of each tensor-parallel rank.
#include <map>

#include "tessera/base/error.h"
#include "tessera/plan/head_split.h"
#include "tessera/plan/megatron/tensor_parallel.h"
#include "tests/golden/golden.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using megatron::ParallelLayer;
using megatron::ParameterShard;
using megatron::VocabUtility;

// What the peer answered; its errors are refusals.
Json peer_answer(const Json& test_case) {
  return errors_as_refusals(test_case.at("expect"));
}

Json answers_of_ranks(int64_t tp, const std::function<Json(int64_t rank)>& answer) {
  if (tp < 1) throw ConfigError(concat("no group has ", tp, " ranks"));
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < tp; ++rank) ranks.push_back(answer(rank));
  return {{"ranks", ranks}};
}

// ---- Vocabularies

Json ends_of(Span span) {
  return {span.begin, span.end};
}

Outcome check_vocab_range(const Json& c) {
  const auto answer = [&] {
    return answers_of_ranks(c.at("tp"), [&](int64_t rank) {
      return ends_of(
          VocabUtility::vocab_range_from_global_vocab_size(c.at("vocab"), rank, c.at("tp")));
    });
  };
  return judge(peer_answer(c), answer, rules::of_size({c.at("vocab"), c.at("tp")}));
}

const Rule* rule_of_partition(const Json& c) {
  const int64_t rank = c.at("rank");
  if (const Rule* rule = rules::of_size({c.at("per_partition"), c.at("tp")})) return rule;
  return rank < 0 || rank >= c.at("tp") ? &rules::kTensorRankOutOfRange : nullptr;
}

Outcome check_vocab_range_of_partition(const Json& c) {
  const auto answer = [&]() -> Json {
    return {{"range", ends_of(VocabUtility::vocab_range_from_per_partition_vocab_size(
                          c.at("per_partition"), c.at("rank"), c.at("tp")))}};
  };
  return judge(peer_answer(c), answer, rule_of_partition(c));
}

// The peer has two functions for this, one of which takes sizes below one.
Outcome check_padded_vocab(const Json& c) {
  const Json ours = result_or_refusal([&] {
    return megatron::calculate_padded_vocab_size(c.at("vocab"), c.at("divisible_by"), c.at("tp"));
  });
  const Rule* const rule = rules::of_size({c.at("vocab"), c.at("divisible_by"), c.at("tp")});
  Json expected = peer_answer(c);
  Json got = Json::object();
  bool decided = false;
  for (auto& [function, value] : expected.items()) {
    if (function != "calculate_padded_vocab_size" && function != "vocab_size_with_padding") {
      throw UnknownName("function", function);
    }
    decided = decided || (rule != nullptr && value != refusal());
    if (rule != nullptr) value = refusal();
    got[function] = ours;
  }
  return {expected, got, decided ? rule : nullptr};
}

Outcome check_divide(const Json& c) {
  const auto answer = [&]() -> Json {
    return {{"quotient", megatron::divide(c.at("numerator"), c.at("denominator"))}};
  };
  return judge(peer_answer(c), answer, nullptr);
}

// ---- Weights

ParallelLayer layer_of(const Json& c) {
  static const std::map<std::string, ParallelLayer::Kind> kKinds{
      {"column", ParallelLayer::Kind::kColumn},
      {"row", ParallelLayer::Kind::kRow},
      {"embedding", ParallelLayer::Kind::kEmbedding}};
  const ParallelLayer::Kind kind = known(kKinds, "layer", c.at("layer"));
  const bool embedding = kind == ParallelLayer::Kind::kEmbedding;
  return {.kind = kind,
          .weight = {c.at(embedding ? "vocab" : "outputs"), c.at(embedding ? "outputs" : "inputs")},
          .stride = value_or(c, "stride", 1),
          .bias = value_or(c, "bias", false),
          .sequence_parallel = value_or(c, "sequence_parallel", false)};
}

Json counts_of(const Runs& runs) {
  Json list = Json::array();
  for (const Span& run : runs) list.push_back({run.begin, run.size()});
  return list;
}

Json shard_of_rank(const ParallelLayer& layer, int64_t rank, int64_t tp) {
  const ParameterShard weight = megatron::weight_shard(layer, rank, tp);
  Json answer{{"weight", weight.shape},
              {"rows", counts_of(weight.indices.at(0))},
              {"columns", counts_of(weight.indices.at(1))},
              {"tensor_model_parallel", weight.tensor_model_parallel},
              {"partition_dim", weight.partition_dim},
              {"partition_stride", weight.partition_stride}};
  if (const auto bias = megatron::bias_shard(layer, rank, tp)) {
    answer["bias"] = bias->shape;
    answer["bias_is_tensor_parallel"] = bias->tensor_model_parallel;
    answer["bias_sequence_parallel"] = bias->sequence_parallel;
  }
  if (layer.kind == ParallelLayer::Kind::kEmbedding) {
    answer["vocab"] =
        ends_of(VocabUtility::vocab_range_from_global_vocab_size(layer.weight[0], rank, tp));
  }
  return answer;
}

Outcome check_shard(const Json& c) {
  const ParallelLayer layer = layer_of(c);
  const int64_t tp = c.at("tp");
  const auto answer_with = [tp](const ParallelLayer& one) {
    return answers_of_ranks(tp, [&](int64_t rank) { return shard_of_rank(one, rank, tp); });
  };
  const auto answer = [&] { return answer_with(layer); };
  const Json expected = peer_answer(c);
  if (expected == refusal() && tp == 1 && layer.sequence_parallel) {
    ParallelLayer plain = layer;
    plain.sequence_parallel = false;
    return {answer_with(plain), answer(), &rules::kSequenceParallelOnOneRank};
  }
  const Json sizes{layer.weight, layer.stride, tp};
  return judge(expected, answer, rules::of_size(sizes));
}

// ---- Heads

constexpr int64_t kHeadSize = 2;  // The table's.

Json heads_in(Span heads) {
  Json list = Json::array();
  for (int64_t head = heads.begin; head < heads.end; ++head) list.push_back(head);
  return list;
}

Json heads_of_rank(int64_t heads, int64_t kv_heads, int64_t tp, int64_t rank) {
  const HeadSplit split = split_heads(heads, kv_heads, tp, rank);
  const int64_t hidden = heads * kHeadSize;
  const ParallelLayer qkv = megatron::fused_qkv(heads, kv_heads, kHeadSize, hidden);
  const ParallelLayer projection{.kind = ParallelLayer::Kind::kRow, .weight = {hidden, hidden}};
  return {{"qkv_rows", counts_of(megatron::weight_shard(qkv, rank, tp).indices.at(0)).at(0)},
          {"q_heads", heads_in(split.query_heads)},
          {"kv_heads", heads_in(split.kv_heads)},
          {"proj_weight", megatron::weight_shard(projection, rank, tp).shape},
          {"gathers_qkv", split.replicates_kv()}};
}

const Rule* rule_of_heads(const Json& heads, const Json& kv_heads, const Json& tp) {
  if (const Rule* rule = rules::of_size({heads, kv_heads, tp})) return rule;
  const bool grouped = heads.get<int64_t>() % kv_heads.get<int64_t>() == 0;
  return grouped ? nullptr : &rules::kUnequalHeadGroups;
}

Outcome check_heads(const Json& c) {
  const Json& heads = c.at("heads");
  const Json kv_heads = value_or(c, "kv_heads", heads);
  const Json& tp = c.at("tp");
  const auto answer = [&] {
    return answers_of_ranks(tp,
                            [&](int64_t rank) { return heads_of_rank(heads, kv_heads, tp, rank); });
  };
  return judge(peer_answer(c), answer, rule_of_heads(heads, kv_heads, tp));
}

// ---- The table

const std::map<std::string, Check>& plan_checks() {
  static const std::map<std::string, Check> kChecks{
      {"vocab_range", check_vocab_range},
      {"vocab_range_of_partition", check_vocab_range_of_partition},
      {"padded_vocab", check_padded_vocab},
      {"divide", check_divide},
      {"shard", check_shard},
      {"heads", check_heads}};
  return kChecks;
}

// Several kinds form a part: those of one build, and those that real ranks answer.
std::string part_of(const std::string& kind) {
  if (plan_checks().contains(kind)) return "plan";
  return kind == "split_last_dim" || kind == "split_flat" ? "tensors" : kind;
}

Outcome check_plan_kind(const Json& test_case) {
  return plan_checks().at(test_case.at("kind"))(test_case);
}

}  // namespace

Table tensor_parallel_table() {
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    std::vector<Json> collectives;
    for (const Json& test_case : file.value("cases", Json::array())) {
      const std::string part = part_of(test_case.value("kind", "(no kind)"));
      if (part == "collectives") {
        collectives.push_back(test_case);
      } else {
        list.push_back({part, test_case});
      }
    }
    for (Json& test_case : with_collectives(std::move(collectives))) {
      list.push_back({"collectives", std::move(test_case)});
    }
    return list;
  };
  return {"tensor_parallel",
          {{"plan", check_plan_kind},
           {"tensors", tensor_splits_check()},
           {"collectives", tensor_collectives_check()}},
          cases};
}

}  // namespace tessera::golden
