// The parts of context_balance that speak of OLMo-core's load balancers.
#include "tessera/base/error.h"
#include "tessera/plan/context_parallel.h"
#include "tessera/plan/head_split.h"
#include "tessera/plan/olmo/context_parallel.h"
#include "tessera/plan/packed_documents.h"
#include "tests/golden/context_case.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using olmo::DocumentShard;
using olmo::RingAttentionLoadBalancer;
using olmo::ShardOptions;
using Type = olmo::RingAttentionLoadBalancerType;

ShardOptions options_of(const Json& c) {
  ShardOptions options{.pad = value_or(c, "pad", false)};
  const Json multiple = value_or(c, "length_multiple", nullptr);
  if (!multiple.is_null()) options.length_multiple = multiple.get<int64_t>();
  return options;
}

const Rule* rule_of_sizes(const Json& c) {
  return rules::of_size(
      Json::array({c.at("degree"), value_or(c, "seq_len", 1), value_or(c, "length_multiple", 1)}));
}

Check check_sequence(Type type) {
  return [type](const Json& c) {
    const auto answer = [&]() -> Json {
      return {{"ranks", by_rank(c.at("degree"), [&](int64_t rank) -> Json {
                 const RingAttentionLoadBalancer balancer{type, rank, c.at("degree")};
                 return {
                     {"positions", runs_of(balancer.batch_shard(c.at("seq_len"), options_of(c)))}};
               })}};
    };
    return judge(errors_as_refusals(c.at("expect")), answer, rule_of_sizes(c));
  };
}

// ---- Documents

using Cumulative = std::vector<int64_t>;

Cumulative cumulative_of(const Json& c) {
  const Json given = value_or(c, "cu_doc_lens", nullptr);
  if (!given.is_null()) return given.get<Cumulative>();
  return cumulative_lengths(c.at("doc_lens").get<DocumentLengths>());
}

// Ours refuses documents without positions; the peer does if the lengths do not start with 0.
const Rule* rule_of_cumulative(const Cumulative& cumulative) {
  for (size_t i = 1; i < cumulative.size(); ++i) {
    if (cumulative[i] <= cumulative[i - 1]) return &rules::kEmptyDocument;
  }
  return cumulative.size() < 2 ? &rules::kEmptyDocument : nullptr;
}

Json lengths_for_all(const DocumentShard& shard) {
  return {{"positions", runs_of(shard.positions)},
          {"cu_doc_lens", shard.cu_doc_lens},
          {"max_doc_len", shard.max_doc_len}};
}

Json lengths_for_queries_and_keys(const DocumentShard& shard) {
  return {{"positions", runs_of(shard.positions)},
          {"cu_doc_lens_q", shard.cu_doc_lens_q},
          {"cu_doc_lens_k", shard.cu_doc_lens_k},
          {"max_doc_len_q", shard.max_doc_len_q},
          {"max_doc_len_k", shard.max_doc_len_k},
          {"local_k_slice", {shard.local_k_slice.begin, shard.local_k_slice.end}}};
}

// Positions from `tokens` on are written as padding.
Json documents_of(Type type, const Json& c, const Cumulative& cumulative, int64_t tokens) {
  const auto of_rank = [&](int64_t rank) {
    const RingAttentionLoadBalancer balancer{type, rank, c.at("degree")};
    DocumentShard shard = balancer.batch_shard_by_document(cumulative, options_of(c));
    for (int64_t& position : shard.positions) {
      if (position >= tokens) position = kPadding;
    }
    return type == Type::llama3 ? lengths_for_queries_and_keys(shard) : lengths_for_all(shard);
  };
  return {{"ranks", by_rank(c.at("degree"), of_rank)}};
}

const Rule* rule_of_document_case(const Json& c, const Cumulative& cumulative) {
  const Rule* const rule = rule_of_sizes(c);
  return rule != nullptr ? rule : rule_of_cumulative(cumulative);
}

Check check_documents(Type type) {
  return [type](const Json& c) {
    const Cumulative cumulative = cumulative_of(c);
    const auto answer = [&] { return documents_of(type, c, cumulative, cumulative.back()); };
    return judge(errors_as_refusals(c.at("expect")), answer, rule_of_document_case(c, cumulative));
  };
}

// A document of padding in the input, too, gives what ours answers for documents that need one.
Outcome check_llama3_documents(const Json& c) {
  Cumulative cumulative = cumulative_of(c);
  const auto answer = [&] { return documents_of(Type::llama3, c, cumulative, cumulative.back()); };
  const Json expected = errors_as_refusals(c.at("expect"));
  const Rule* const rule = rule_of_document_case(c, cumulative);
  if (rule != nullptr || cumulative.front() != 0) return judge(expected, answer, rule);
  const int64_t multiple =
      c.at("degree").get<int64_t>() * value_or(c, "length_multiple", 1).get<int64_t>();
  const int64_t tokens = cumulative.back();
  if (tokens % multiple == 0) return judge(expected, answer, nullptr);
  if (!options_of(c).pad) return judge(expected, answer, &rules::kPaddingSubtracted);
  const Json ours = answer();
  cumulative.push_back((tokens / multiple + 1) * multiple);
  return {documents_of(Type::llama3, c, cumulative, tokens), ours, &rules::kPaddingSubtracted};
}

// ---- Heads

Json run_of(Span span) {
  return Json::array({Json::array({span.begin, span.size()})});
}

Json heads_after_exchange(const ContextParallelShape& shape) {
  check_context_parallel({.type = "ulysses", .layout = "contiguous"}, shape);
  Json answer{{"tokens", run_of({0, shape.sequence})}};
  for (int64_t rank = 0; rank < shape.cp; ++rank) {
    const HeadSplit split = split_heads(shape.heads, shape.kv_heads, shape.cp, rank);
    answer["q_heads"].push_back(run_of(split.query_heads));
    answer["kv_heads"].push_back(run_of(split.kv_heads));
  }
  return answer;
}

// Equal shares of the query heads, each with the one key-value head that they attend with.
Json repeated_kv_heads(const ContextParallelShape& shape) {
  Json answer{{"tokens", run_of({0, shape.sequence})}};
  const int64_t share = shape.heads / shape.cp;
  for (int64_t rank = 0; rank < shape.cp; ++rank) {
    const int64_t kv_head = rank * share / (shape.heads / shape.kv_heads);
    answer["q_heads"].push_back(run_of({rank * share, (rank + 1) * share}));
    answer["kv_heads"].push_back(run_of({kv_head, kv_head + 1}));
  }
  return answer;
}

Outcome check_heads_after_exchange(const Json& c) {
  const ContextParallelShape shape{.cp = c.at("degree"),
                                   .sequence = c.at("seq_len"),
                                   .heads = c.at("heads"),
                                   .kv_heads = value_or(c, "kv_heads", c.at("heads"))};
  const auto answer = [&] { return heads_after_exchange(shape); };
  const Json expected = errors_as_refusals(c.at("expect"));
  const Rule* rule = rules::of_size({shape.cp, shape.sequence, shape.heads, shape.kv_heads});
  if (rule == nullptr && shape.heads % shape.kv_heads != 0) rule = &rules::kUnequalHeadGroups;
  if (rule == nullptr && expected == refusal() && shape.sequence % shape.cp == 0 &&
      shape.heads % shape.cp == 0 && shape.kv_heads < shape.cp && shape.cp % shape.kv_heads == 0) {
    return {repeated_kv_heads(shape), answer(), &rules::kFewKeyValueHeads};
  }
  return judge(expected, answer, rule);
}

}  // namespace

std::vector<Part> olmo_context_parts() {
  return {{"olmo_zig_zag", check_sequence(Type::zig_zag)},
          {"olmo_llama3", check_sequence(Type::llama3)},
          {"olmo_ulysses", check_sequence(Type::ulysses)},
          {"olmo_zig_zag_doc", check_documents(Type::zig_zag)},
          {"olmo_llama3_doc", check_llama3_documents},
          {"olmo_ulysses_doc", check_documents(Type::ulysses)},
          {"olmo_ulysses_heads", check_heads_after_exchange}};
}

}  // namespace tessera::golden
