// context_balance: which positions of a sequence each context-parallel rank holds, in the layouts
// of PyTorch, Megatron-Core, TransformerEngine and USP. check_context_olmo.cpp has OLMo-core's.
#include <algorithm>
#include <map>
#include <numeric>

#include "tessera/base/error.h"
#include "tessera/plan/context_layout.h"
#include "tessera/plan/packed_documents.h"
#include "tests/golden/context_case.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

Json ranks_of(const ContextLayout& layout) {
  return by_rank(layout.ranks(), [&](int64_t rank) { return runs_of(layout.positions(rank)); });
}

Json with_restore(const ContextLayout& layout) {
  return {{"ranks", ranks_of(layout)}, {"restore", runs_of(layout.restore())}};
}

// ---- PyTorch: one sequence

Json whole_sequence(const Json& length) {
  return Json::array({Json::array({0, length})});
}

Outcome check_torch_head_tail(const Json& c) {
  const Json expected = errors_as_refusals(c.at("expect"));
  const Json& length = c.at("seq_len");
  const auto answer = [&] {
    return with_restore(ContextLayout::head_tail(length, c.at("degree")));
  };
  const Rule* const rule = rules::of_size({c.at("degree"), length});
  if (rule == nullptr && expected == refusal() && c.at("degree") == 1) {
    const Json whole = whole_sequence(length);
    return {
        {{"ranks", Json::array({whole})}, {"restore", whole}}, answer(), &rules::kOneContextRank};
  }
  return judge(expected, answer, rule);
}

// PyTorch takes head-tail where the length allows it, else contiguous pieces.
Outcome check_torch_default(const Json& c) {
  const int64_t length = c.at("seq_len");
  const int64_t degree = c.at("degree");
  const auto answer = [&]() -> Json {
    const Json head_tail =
        result_or_refusal([&] { return ranks_of(ContextLayout::head_tail(length, degree)); });
    if (head_tail != refusal()) return {{"balanced", true}, {"ranks", head_tail}};
    return {{"balanced", false}, {"ranks", ranks_of(ContextLayout::contiguous(length, degree))}};
  };
  Json expected = errors_as_refusals(c.at("expect"));
  const Rule* rule = rules::of_size({degree, length});
  if (rule == nullptr && length % degree != 0) rule = &rules::kUnequalContextPieces;
  if (rule == nullptr && degree == 1 && length % 2 != 0) {
    expected["balanced"] = true;
    return {expected, answer(), &rules::kOneContextRank};
  }
  return judge(expected, answer, rule);
}

// ---- PyTorch: documents

// Chunks r and 2·degree-1-r of every document, and the keys of their queries, without the library.
Json per_document_by_rule(const std::vector<int64_t>& documents, int64_t degree) {
  std::vector<int64_t> all;
  Json answer{{"ranks", Json::array()}, {"causal_work", Json::array()}};
  for (int64_t rank = 0; rank < degree; ++rank) {
    std::vector<int64_t> own;
    int64_t work = 0;
    int64_t begin = 0;
    for (const int64_t length : documents) {
      const int64_t chunk = length / (2 * degree);
      for (const int64_t index : {rank, 2 * degree - 1 - rank}) {
        for (int64_t i = index * chunk; i < (index + 1) * chunk; ++i) {
          own.push_back(begin + i);
          work += i + 1;
        }
      }
      begin += length;
    }
    all.insert(all.end(), own.begin(), own.end());
    answer["ranks"].push_back(runs_of(own));
    answer["causal_work"].push_back(work);
  }
  std::vector<int64_t> restore(all.size());
  std::iota(restore.begin(), restore.end(), 0);
  std::ranges::sort(restore, {}, [&](int64_t i) { return all[static_cast<size_t>(i)]; });
  answer["restore"] = runs_of(restore);
  return answer;
}

using Rows = std::vector<std::vector<int64_t>>;

bool any_document(const Rows& rows, const std::function<bool(int64_t length)>& has) {
  return std::ranges::any_of(rows, [&](const auto& row) { return std::ranges::any_of(row, has); });
}

Json rows_of(const Rows& rows, const std::function<Json(const std::vector<int64_t>&)>& answer) {
  Json list = Json::array();
  for (const std::vector<int64_t>& row : rows) {
    if (std::reduce(row.begin(), row.end()) != std::reduce(rows[0].begin(), rows[0].end())) {
      throw ConfigError("the rows of a batch have equal lengths");
    }
    list.push_back(answer(row));
  }
  return {{"rows", list}};
}

Json per_document(const std::vector<int64_t>& documents, int64_t degree) {
  const ContextLayout layout = ContextLayout::per_document(documents, degree);
  Json answer = with_restore(layout);
  answer["causal_work"] = causal_pairs(layout, documents);
  return answer;
}

// What holds for documents that are no multiples of 2·degree: all positions and all pairs, shared.
Json totals(const std::vector<int64_t>& documents, int64_t degree) {
  const ContextLayout layout = ContextLayout::per_document(documents, degree);
  const std::vector<int64_t> pairs = causal_pairs(layout, documents);
  return {layout.restore().size(), std::reduce(pairs.begin(), pairs.end())};
}

Json totals_by_rule(const std::vector<int64_t>& documents) {
  int64_t pairs = 0;
  for (const int64_t length : documents) pairs += length * (length + 1) / 2;
  return {std::reduce(documents.begin(), documents.end()), pairs};
}

Outcome check_torch_per_document(const Json& c) {
  const auto rows = c.at("doc_lens").get<Rows>();
  const int64_t degree = c.at("degree");
  const Json expected = errors_as_refusals(c.at("expect"));
  const auto answer = [&] {
    return rows_of(rows, [&](const auto& row) { return per_document(row, degree); });
  };
  if (const Rule* rule = rules::of_size({degree})) return judge(expected, answer, rule);
  if (const Rule* rule = rule_of_documents(c.at("doc_lens"))) return judge(expected, answer, rule);
  const Json ours = result_or_refusal(answer);
  const bool rest = any_document(rows, [&](int64_t length) { return length % (2 * degree) != 0; });
  if (expected == refusal() && ours != refusal() && rest) {
    return {rows_of(rows, totals_by_rule),
            rows_of(rows, [&](const auto& row) { return totals(row, degree); }),
            degree == 1 ? &rules::kOneContextRank : &rules::kDocumentRemainders};
  }
  const bool packed = std::ranges::any_of(rows, [](const auto& row) { return row.size() > 1; });
  if (expected != refusal() && packed && degree > 1) {
    return {rows_of(rows, [&](const auto& row) { return per_document_by_rule(row, degree); }), ours,
            &rules::kDocumentByDocument};
  }
  return {expected, ours};
}

// ---- PyTorch: blocks sorted by cost

Outcome check_torch_ptrr(const Json& c) {
  const auto costs = c.at("process_time").get<std::vector<int64_t>>();
  const auto answer = [&]() -> Json {
    const auto groups = deal_blocks(costs, c.at("degree"));
    std::vector<int64_t> sums;
    for (const std::vector<int64_t>& group : groups) {
      int64_t& sum = sums.emplace_back(0);
      for (const int64_t block : group) sum += costs.at(static_cast<size_t>(block));
    }
    return {{"groups", groups}, {"sums", sums}};
  };
  return judge(errors_as_refusals(c.at("expect")), answer,
               rules::of_size({c.at("degree"), costs.size()}));
}

CausalMask mask_of(const Json& c) {
  const int64_t length = c.at("seq_len");
  static const std::map<std::string, std::function<CausalMask(const Json&)>> kMasks{
      {"causal", [](const Json& one) { return CausalMask{{one.at("seq_len")}}; }},
      {"document_causal",
       [](const Json& one) { return CausalMask{one.at("doc_lens").get<DocumentLengths>()}; }},
      {"sliding",
       [](const Json& one) { return CausalMask{{one.at("seq_len")}, one.at("window")}; }}};
  CausalMask mask = known(kMasks, "mask", c.at("mask"))(c);
  if (std::reduce(mask.documents.begin(), mask.documents.end()) != length) {
    throw ConfigError("the documents do not cover the sequence");
  }
  return mask;
}

Outcome check_torch_ptrr_mask(const Json& c) {
  const int64_t block = c.at("block");
  const auto answer = [&] {
    const std::vector<int64_t> costs = block_costs(mask_of(c), block);
    Json result = with_restore(ContextLayout::of_blocks(deal_blocks(costs, c.at("degree")), block));
    result["process_time"] = costs;
    return result;
  };
  const Json sizes{c.at("degree"), c.at("seq_len"), block, value_or(c, "window", 1)};
  const Rule* rule = rules::of_size(sizes);
  if (rule == nullptr) rule = rule_of_documents(value_or(c, "doc_lens", Json::array()));
  const bool remainder = rule == nullptr && c.at("seq_len").get<int64_t>() % block != 0;
  if (remainder) rule = &rules::kBlockRemainder;
  return judge(errors_as_refusals(c.at("expect")), answer, rule);
}

// ---- Megatron-Core, TransformerEngine, USP

Outcome check_megatron_zig_zag(const Json& c) {
  const auto answer = [&]() -> Json {
    return {{"ranks", ranks_of(ContextLayout::head_tail(c.at("seq_len"), c.at("degree")))}};
  };
  return judge(errors_as_refusals(c.at("expect")), answer,
               rules::of_size({c.at("seq_len"), c.at("degree")}));
}

Json thd_rank(const PaddedDocuments& documents, const ContextLayout& layout, int64_t rank) {
  const std::vector<int64_t> positions = layout.positions(rank);
  const auto [head, tail] = valid_lengths(documents, layout.ranks(), rank);
  std::vector<int64_t> both = head;
  for (size_t i = 0; i < tail.size(); ++i) both[i] += tail[i];
  return {{"positions", runs_of(documents.unpadded(positions))},
          {"rope_positions", runs_of(positions_in_documents(positions, documents.padded))},
          {"valid_cu",
           {{"both", cumulative_lengths(both)},
            {"head", cumulative_lengths(head)},
            {"tail", cumulative_lengths(tail)}}}};
}

Json thd(const DocumentLengths& lengths, int64_t degree) {
  const PaddedDocuments documents = pad_documents(lengths, 2 * degree);
  const ContextLayout layout = ContextLayout::per_document(documents.padded, degree);
  DocumentLengths local = documents.padded;
  for (int64_t& length : local) length /= degree;
  return {
      {"cu_padded", cumulative_lengths(documents.padded)},
      {"local_cu_padded", cumulative_lengths(local)},
      {"ranks", by_rank(degree, [&](int64_t rank) { return thd_rank(documents, layout, rank); })}};
}

Outcome check_te_thd(const Json& c) {
  const Rule* rule = rules::of_size(c.at("degree"));
  if (rule == nullptr) rule = rule_of_documents(c.at("doc_lens"));
  return judge(
      errors_as_refusals(c.at("expect")), [&] { return thd(c.at("doc_lens"), c.at("degree")); },
      rule);
}

// One position stands for a chunk: the all-to-all gathers the chunks in rank order.
Outcome check_te_a2a_chunks(const Json& c) {
  const int64_t degree = c.at("degree");
  const auto answer = [&]() -> Json {
    const ContextLayout layout = ContextLayout::head_tail(2 * degree, degree);
    std::vector<int64_t> gathered;
    for (int64_t rank = 0; rank < degree; ++rank) {
      for (const int64_t chunk : layout.positions(rank)) gathered.push_back(chunk);
    }
    return {{"before_attention", layout.restore()}, {"after_attention", gathered}};
  };
  return judge(errors_as_refusals(c.at("expect")), answer, rules::of_size(c.at("degree")));
}

Outcome check_usp(const Json& c) {
  static const std::map<std::string, std::string> kLayouts{
      {"zigzag", "head-tail"}, {"strip", "striped"}, {"basic", "contiguous"}};
  const std::string& layout = known(kLayouts, "layout", c.at("layout"));
  const int64_t length = c.at("seq_len");
  const int64_t ring = c.at("ring");
  const int64_t ulysses = c.at("ulysses");
  const auto answer = [&]() -> Json {
    return {{"ranks", ranks_of(make_context_layout(layout, {length}, ring).divided(ulysses))}};
  };
  const Rule* rule = rules::of_size({length, ring, ulysses});
  if (rule == nullptr) {
    const int64_t chunks = layout == "head-tail" && ring > 1 ? 2 * ring : ring;
    const bool even = length % chunks == 0 && length % (ring * ulysses) == 0;
    rule = even ? nullptr : &rules::kUnequalContextPieces;
  }
  return judge(errors_as_refusals(c.at("expect")), answer, rule);
}

}  // namespace

Json runs_of(const std::vector<int64_t>& numbers) {
  Json runs = Json::array();
  int64_t next = 0;  // What would continue the last run.
  for (const int64_t number : numbers) {
    if (!runs.empty() && number == next) {
      runs.back()[1] = runs.back()[1].get<int64_t>() + 1;
    } else {
      runs.push_back({number, 1});
    }
    next = number == kPadding ? kPadding : number + 1;
  }
  return runs;
}

Json by_rank(int64_t degree, const std::function<Json(int64_t rank)>& answer) {
  Json ranks = Json::array();
  for (int64_t rank = 0; rank < std::max(degree, int64_t{1}); ++rank) {
    ranks.push_back(answer(rank));
  }
  return ranks;
}

const Rule* rule_of_documents(const Json& doc_lens) {
  if (!doc_lens.is_array()) return doc_lens < 1 ? &rules::kEmptyDocument : nullptr;
  for (const Json& one : doc_lens) {
    if (const Rule* rule = rule_of_documents(one)) return rule;
  }
  return nullptr;
}

Table context_balance_table() {
  std::vector<Part> parts = olmo_context_parts();
  parts.insert(parts.end(), {{"torch_head_tail", check_torch_head_tail},
                             {"torch_default", check_torch_default},
                             {"torch_per_document", check_torch_per_document},
                             {"torch_ptrr", check_torch_ptrr},
                             {"torch_ptrr_mask", check_torch_ptrr_mask},
                             {"megatron_zig_zag", check_megatron_zig_zag},
                             {"te_thd", check_te_thd},
                             {"te_a2a_chunks", check_te_a2a_chunks},
                             {"usp", check_usp}});
  const auto cases = [](const Json& file) {
    std::vector<Case> list;
    for (const Json& test_case : file.value("cases", Json::array())) {
      list.push_back({test_case.value("kind", "(no kind)"), test_case});
    }
    return list;
  };
  return {"context_balance", std::move(parts), cases};
}

}  // namespace tessera::golden
