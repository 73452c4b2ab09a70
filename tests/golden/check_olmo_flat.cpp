// The flat part of olmo_tensors, and olmo_flat_collectives: OLMo-core's sharded flat tensors, as
// any rank of a fake world and on real ranks.
#include <ATen/ATen.h>

#include "tessera/base/check.h"
#include "tessera/tensor/sharded_flat_tensor.h"
#include "tests/golden/dtypes.h"
#include "tests/golden/ranked_cases.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using Shape = std::vector<int64_t>;

std::vector<FlatSpans> spans_of(const Json& offsets) {
  std::vector<FlatSpans> spans;
  for (const Json& of_rank : offsets) {
    spans.emplace_back();
    for (const Json& span : of_rank) spans.back().push_back({span.at(0), span.at(1)});
  }
  return spans;
}

// Null for the default sharding.
Json offsets_of(const Json& test_case) {
  return value_or(test_case, "offsets", nullptr);
}

std::optional<ShardingSpec> spec_of(const Json& test_case) {
  const Json offsets = offsets_of(test_case);
  if (offsets.is_null()) return std::nullopt;
  const Json shape = value_or(test_case, "spec_shape", test_case.at("shape"));
  return ShardingSpec(shape.get<Shape>(), spans_of(offsets));
}

at::Tensor counting(const Json& test_case) {
  const Shape shape = test_case.at("shape");
  const at::ScalarType dtype = dtype_named(value_or(test_case, "dtype", "float32"));
  return at::arange(at::empty(shape).numel()).to(dtype).reshape(shape);
}

// The ranks that hold the tensor, as PyTorch numbers them in their group.
Shape group_ranks(const Json& test_case) {
  Shape ranks = value_or(test_case, "group_ranks", Json::array());
  std::ranges::sort(ranks);
  return ranks;
}

int64_t num_ranks(const Json& test_case) {
  const auto size = static_cast<int64_t>(group_ranks(test_case).size());
  return size > 0 ? size : test_case.at("world_size").get<int64_t>();
}

Json numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous();
  return std::vector<double>(flat.const_data_ptr<double>(),
                             flat.const_data_ptr<double>() + flat.numel());
}

Json all_numbers(const std::vector<at::Tensor>& tensors) {
  Json list = Json::array();
  for (const at::Tensor& tensor : tensors) list.push_back(numbers(tensor));
  return list;
}

Json to_json(const ShardingSpec& spec) {
  Json offsets = Json::array();
  for (const FlatSpans& spans : spec.unsharded_flattened_offsets()) {
    Json of_rank = Json::array();
    for (const Span& span : spans) of_rank.push_back({span.begin, span.end});
    offsets.push_back(of_rank);
  }
  return {{"unsharded_numel", spec.unsharded_numel()},
          {"unsharded_flattened_shape", spec.unsharded_flattened_shape()},
          {"sharded_numels", spec.sharded_numels()},
          {"unsharded_flattened_offsets", offsets}};
}

Json answer_as_all_ranks(const Json& test_case) {
  const at::Tensor whole = counting(test_case);
  Json answer;
  for (int64_t rank = 0; rank < test_case.at("world_size"); ++rank) {
    const World world = World::fake(GlobalRank{rank}, test_case.at("world_size"));
    const auto mine = ShardedFlatTensor::shard(
        whole, world.group(), {.sharding_spec = spec_of(test_case), .synchronize = false});
    answer["spec"] = to_json(mine.sharding_spec());
    answer["shard_of_rank"].push_back(numbers(mine.sharded_data()));
    answer["sharded_chunk_of_rank"].push_back(numbers(mine.sharded_chunk(whole)));
    answer["chunk_unsharded"] = all_numbers(mine.chunk_unsharded(whole));
    answer["chunk_unsharded_pad"] = all_numbers(mine.chunk_unsharded(whole, true));
  }
  return answer;
}

// Pieces of ceil(numel / world), the last ones empty: what the peer's rule means.
Json default_spans(int64_t numel, int64_t world) {
  const int64_t size = (numel + world - 1) / world;
  Json spans = Json::array();
  for (int64_t rank = 0; rank < world; ++rank) {
    spans.push_back({{std::min(rank * size, numel), std::min((rank + 1) * size, numel)}});
  }
  return spans;
}

// Where the peer's default pieces would begin behind the end, which it refuses.
bool has_empty_last_shards(const Json& test_case) {
  const int64_t numel = counting(test_case).numel();
  const int64_t world = num_ranks(test_case);
  const int64_t size = (numel + world - 1) / world;
  return offsets_of(test_case).is_null() && (world - 1) * size > numel;
}

bool has_rank_without_spans(const Json& offsets) {
  return std::ranges::any_of(offsets, [](const Json& spans) { return spans.empty(); });
}

// What the peer would answer if a rank without spans were no error: each chunk by its spans.
Json chunks_of(const Json& offsets, const Json& padded_to) {
  Json chunks = Json::array();
  for (const FlatSpans& spans : spans_of(offsets)) {
    Json chunk = Json::array();
    for (const Span& span : spans) {
      for (int64_t i = span.begin; i < span.end; ++i) chunk.push_back(static_cast<double>(i));
    }
    while (padded_to.is_number() && chunk.size() < padded_to) chunk.push_back(0.0);
    chunks.push_back(chunk);
  }
  return chunks;
}

Outcome check_sharded_flat(const Json& test_case) {
  const Json got = result_or_refusal([&] { return answer_as_all_ranks(test_case); });
  Json expected = test_case.at("result");
  const Json offsets = offsets_of(test_case);
  const int64_t world = test_case.at("world_size");
  if (expected.contains("error") && has_empty_last_shards(test_case)) {
    Json as_written = test_case;
    as_written["offsets"] = default_spans(counting(test_case).numel(), world);
    return {answer_as_all_ranks(as_written), got, &rules::kEmptyLastShards};
  }
  if (expected.contains("error")) return {refusal(), got};
  if (const Rule* const rule = rules::of_spans(offsets, world)) return {refusal(), got, rule};
  if (!has_rank_without_spans(offsets)) return {expected, got};
  const Json numels = expected.at("spec").at("sharded_numels");
  expected["chunk_unsharded"] = chunks_of(offsets, nullptr);
  expected["sharded_chunk_of_rank"] = expected["chunk_unsharded"];
  expected["chunk_unsharded_pad"] = chunks_of(offsets, *std::ranges::max_element(numels));
  return {expected, got, &rules::kRankWithoutSpans};
}

Json described(const at::Tensor& tensor) {
  return {{"shape", tensor.sizes().vec()},
          {"dtype", name_of(tensor.scalar_type())},
          {"data", numbers(tensor)}};
}

Group group_of(const Json& test_case, const World& world) {
  const Shape ranks = group_ranks(test_case);
  return ranks.empty() ? world.group() : world.group(to_ranks(ranks));
}

// A parameter is the same here; only its requires_grad differs, which the table does not show.
ShardedFlatTensor shard_of(const Json& test_case, const at::Tensor& tensor, const Group& group,
                           bool synchronize) {
  const FlatShardOptions options{.sharding_spec = spec_of(test_case), .synchronize = synchronize};
  return value_or(test_case, "parameter", false)
             ? ShardedFlatParameter::shard(tensor, group, options)
             : ShardedFlatTensor::shard(tensor, group, options);
}

void answer_writing(ShardedFlatTensor& tensor, int64_t rank, Json& out) {
  tensor.unshard_();
  tensor.tensor().add_(1);
  out["unshard_then_add1"] = described(tensor.tensor());
  tensor.reshard_();
  out["reshard_no_writeback"] = described(tensor.tensor());
  tensor.unshard_();
  tensor.tensor().add_(10 * (rank + 1));
  tensor.reshard_(true);
  out["reshard_writeback_add_10x_rank_plus_1"] = described(tensor.tensor());
}

void answer_rank0_only(ShardedFlatTensor& tensor, Json& out) {
  tensor.unshard_(std::nullopt, at::kHalf, true);
  out["unshard_rank0_only_float16"] = described(tensor.tensor());
  out["unshard_rank0_only_visible_dtype"] = name_of(tensor.tensor().scalar_type());
  tensor.tensor().mul_(2);
  tensor.reshard_(true);
  out["reshard_writeback_after_rank0_only_mul2"] = described(tensor.tensor());
}

// Where the group has no global rank 0, the peer refuses; here the group's first rank gets it.
bool has_no_rank_0(const Json& test_case) {
  const Shape ranks = group_ranks(test_case);
  return !ranks.empty() && ranks.front() != 0;
}

Json gathered_on_first(const Json& test_case) {
  Json per_rank = test_case.at("result").at("gather");
  const int64_t first = group_ranks(test_case).front();
  for (size_t rank = 0; rank < per_rank.size(); ++rank) {
    if (per_rank[rank].is_null() || static_cast<int64_t>(rank) == first) continue;
    per_rank[rank]["shape"] = {0};
    per_rank[rank]["data"] = Json::array();
  }
  return per_rank;
}

// Specs that the peer cannot gather and ours can.
const Rule* works_here(const Json& test_case) {
  if (has_empty_last_shards(test_case)) return &rules::kEmptyLastShards;
  const Json offsets = offsets_of(test_case);
  const bool fits = rules::of_spans(offsets, num_ranks(test_case)) == nullptr;
  return fits && has_rank_without_spans(offsets) ? &rules::kRankWithoutSpans : nullptr;
}

// What the peer refuses, ours refuses on all ranks that hold the tensor. Where ours can do it, the
// gather is the first rank's tensor.
Outcome check_refused_collectives(const Json& test_case) {
  Json expected = Json::array();
  Json got = Json::array();
  const Rule* const rule = works_here(test_case);
  const Shape ranks = group_ranks(test_case);
  const at::Tensor whole = counting(test_case).add(ranks.empty() ? 0 : 100 * ranks.front());
  for (const Json& answer : test_case.at("answers")) {
    const bool there = rule != nullptr && answer.is_object() && answer.contains("gather");
    const Json answered = rule != nullptr ? numbers(whole) : refusal();
    expected.push_back(answer.is_null() ? Json() : answered);
    got.push_back(there ? answer.at("gather").at("data") : answer);
  }
  return {expected, got, rule};
}

// What ours refuses, on all ranks that hold the tensor.
Outcome check_refused_here(const Json& test_case, const Rule* rule) {
  Json expected = Json::array();
  for (const Json& answer : test_case.at("answers")) {
    expected.push_back(answer.is_null() ? Json() : refusal());
  }
  return {expected, test_case.at("answers"), rule};
}

Json answers_to(const Json& test_case, const std::string& step) {
  Json answers = Json::array();
  for (const Json& answer : test_case.at("answers")) {
    if (answer.is_object() && !answer.contains(step)) throw UnknownName("step", step);
    answers.push_back(answer.is_object() ? answer.at(step) : answer);
  }
  return answers;
}

Outcome check_flat_collectives(const Json& test_case) {
  Json expected = test_case.at("result");
  if (expected.contains("error")) return check_refused_collectives(test_case);
  const Rule* rule = rules::of_spans(offsets_of(test_case), num_ranks(test_case));
  if (rule != nullptr) return check_refused_here(test_case, rule);
  if (has_no_rank_0(test_case) && expected.contains("gather_rank0_only")) {
    expected["gather_rank0_only"] = gathered_on_first(test_case);
    rule = &rules::kFirstOfTheGroup;
  }
  Json got = Json::object();
  for (const auto& [step, per_rank] : expected.items()) got[step] = answers_to(test_case, step);
  return {expected, got, rule};
}

}  // namespace

Json answer_flat_collectives(const Json& test_case, World& world) {
  const Group group = group_of(test_case, world);
  if (!group.is_member()) return nullptr;
  const int64_t rank = world.rank().value;
  const at::Tensor mine = counting(test_case).add(100 * rank);
  Json out;
  out["shard_no_sync"] = described(shard_of(test_case, mine, group, false).tensor());
  ShardedFlatTensor tensor = shard_of(test_case, mine, group, true);
  out["shard"] = described(tensor.tensor());
  out["gather"] = described(tensor.gather());
  out["gather_float64"] = described(tensor.gather(at::kDouble));
  out["gather_rank0_only"] = described(tensor.gather(std::nullopt, true));
  answer_writing(tensor, rank, out);
  answer_rank0_only(tensor, out);
  tensor.unshard_(counting(test_case).mul(3));
  out["unshard_from_data"] = described(tensor.tensor());
  tensor.reshard_(true);
  out["reshard_after_unshard_from_data"] = described(tensor.tensor());
  return out;
}

Check olmo_sharded_flat_check() {
  return check_sharded_flat;
}

Table olmo_flat_collectives_table() {
  const auto cases = [](const Json& file) {
    const auto world_size = [](const Json& test_case) {
      return test_case.at("world_size").get<int64_t>();
    };
    std::vector<Case> list;
    for (Json& test_case : with_answers("olmo_flat_collectives", file.at("cases"), world_size)) {
      list.push_back({"cases", std::move(test_case)});
    }
    return list;
  };
  return {"olmo_flat_collectives", {{"cases", check_flat_collectives}}, cases};
}

}  // namespace tessera::golden
