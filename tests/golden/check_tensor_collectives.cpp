// What the tensor-parallel layers of tensor_parallel send in the forward and in the backward pass.
#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "tessera/base/error.h"
#include "tessera/comm/internal/state.h"
#include "tessera/dialect/megatron/tensor_parallel.h"
#include "tessera/parallel/tensor/vocabulary.h"
#include "tests/golden/ranked_cases.h"
#include "tests/golden/rules.h"

namespace tessera::golden {
namespace {

using Kind = megatron::ParallelLayer::Kind;

// The arguments of a case, with their defaults.
struct LayerCase {
  explicit LayerCase(const Json& c)
      : layer(c.at("layer")),
        tp(c.at("tp")),
        seq(value_or(c, "seq", 4)),
        batch(value_or(c, "batch", 1)),
        hidden(value_or(c, "hidden", 4)),
        sequence_parallel(value_or(c, "sequence_parallel", false)),
        gather_output(value_or(c, "gather_output", false)),
        input_is_parallel(value_or(c, "input_is_parallel", true)) {}

  std::string layer;
  int64_t tp, seq, batch, hidden;
  bool sequence_parallel, gather_output, input_is_parallel;
};

// ---- The rank's side

at::Tensor leaf(at::IntArrayRef shape) {
  return at::ones(shape, at::kFloat).requires_grad_();
}

// One run of a layer on this rank. Tensors are [batch, positions, width].
class LayerRun {
 public:
  LayerRun(const LayerCase& c, const World& world)
      : c_(c), tensor_{.group = world.group(), .sequence = c.sequence_parallel} {}

  at::Tensor column() const {
    return megatron::column_parallel_linear(leaf({c_.batch, own_positions(), c_.hidden}),
                                            weight(Kind::kColumn), {}, pass_, c_.gather_output);
  }
  at::Tensor row() const {
    const int64_t inputs = 2 * c_.hidden;
    const at::Tensor weight = this->weight(Kind::kRow);
    return row_of(leaf({c_.batch, c_.seq, c_.input_is_parallel ? weight.size(1) : inputs}), weight);
  }
  at::Tensor mlp() const { return row_of(at::silu(column()), weight(Kind::kRow)); }
  at::Tensor embedding() const {
    const at::Tensor tokens = at::zeros({c_.batch, c_.seq}, at::kLong);
    const VocabularyRows rows = vocabulary(8 * c_.tp);
    return vocabulary_embed(tokens, leaf({rows.rows.size(), c_.hidden}), rows, pass_);
  }
  // Logits whose exponentials overflow, and whose ranks differ: without the maximum over all ranks
  // the loss is not finite.
  at::Tensor cross_entropy() const {
    const VocabularyRows rows = vocabulary(c_.hidden);
    const double size = 1000.0 * static_cast<double>(1 + tensor_.group.rank().value);
    const at::Tensor logits =
        at::full({c_.batch, c_.seq, rows.rows.size()}, size, at::kFloat).requires_grad_();
    const at::Tensor targets = at::zeros({c_.batch, c_.seq}, at::kLong);
    const at::Tensor loss = vocabulary_loss(logits, targets, rows, pass_);
    if (!loss.isfinite().item<bool>()) throw NumericError("the loss is not finite");
    return loss;
  }

 private:
  int64_t own_positions() const {
    return c_.sequence_parallel ? megatron::divide(c_.seq, c_.tp) : c_.seq;
  }
  at::Tensor row_of(const at::Tensor& x, const at::Tensor& weight) const {
    return megatron::row_parallel_linear(x, weight, {}, pass_, c_.input_is_parallel);
  }
  at::Tensor weight(Kind kind) const {
    const std::vector<int64_t> shape = kind == Kind::kColumn
                                           ? std::vector{2 * c_.hidden, c_.hidden}
                                           : std::vector{c_.hidden, 2 * c_.hidden};
    return leaf(
        megatron::weight_shard({.kind = kind, .weight = shape}, tensor_.group.rank().value, c_.tp)
            .shape);
  }
  VocabularyRows vocabulary(int64_t size) const {
    return {megatron::VocabUtility::vocab_range_from_global_vocab_size(
                size, tensor_.group.rank().value, c_.tp),
            size};
  }

  const LayerCase& c_;
  const TensorParallel tensor_;
  const Pass pass_{.tensor = &tensor_};
};

using Layer = at::Tensor (LayerRun::*)() const;

const std::map<std::string, Layer>& layers() {
  static const std::map<std::string, Layer> kLayers{{"column", &LayerRun::column},
                                                    {"row", &LayerRun::row},
                                                    {"mlp", &LayerRun::mlp},
                                                    {"embedding", &LayerRun::embedding},
                                                    {"cross_entropy", &LayerRun::cross_entropy}};
  return kLayers;
}

// The operations that this rank has issued so far. A world of one rank issues and records none.
std::vector<FlightEntry> issued(const World& world) {
  const auto& recorder = world.group().state().world().recorder;
  return recorder ? recorder->dump("").entries : std::vector<FlightEntry>{};
}

int64_t next_record(const World& world) {
  const std::vector<FlightEntry> entries = issued(world);
  return entries.empty() ? 0 : entries.back().record_id + 1;
}

// [[operation, shape of this rank's input], …] since a record.
Json issued_since(int64_t first, const World& world) {
  Json list = Json::array();
  for (const FlightEntry& entry : issued(world)) {
    if (entry.record_id < first) continue;
    const std::string name = entry.profiling_name.substr(entry.profiling_name.find(':') + 1);
    list.push_back({name, entry.inputs.at(0).sizes});
  }
  return list;
}

// ---- Comparison

// [batch, positions, …] to the peer's [positions, batch, …], which only its embedding without
// sequence parallelism does not use.
void use_the_peers_layout(const LayerCase& c, Json& answer) {
  if (c.layer == "cross_entropy" || (c.layer == "embedding" && !c.sequence_parallel)) return;
  const auto swap_in = [](Json& shape) { std::swap(shape.at(0), shape.at(1)); };
  swap_in(answer.at("output"));
  for (const char* pass : {"forward", "backward"}) {
    for (Json& operation : answer.at(pass)) swap_in(operation.at(1));
  }
}

int64_t product_of(const Json& shape) {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

// The elements that each operation of a loss sends; sums that follow each other count as one.
Json merge_sums(const Json& operations) {
  Json merged = Json::array();
  for (const Json& operation : operations) {
    const int64_t size = product_of(operation.at(1));
    const bool sum = operation.at(0) == "all_reduce";
    if (sum && !merged.empty() && merged.back().at(0) == "all_reduce") {
      merged.back()[1] = merged.back()[1].get<int64_t>() + size;
    } else {
      merged.push_back({operation.at(0), size});
    }
  }
  return merged;
}

Json as_of_our_loss(const LayerCase& c, Json expected) {
  if (expected.at("output") == Json{c.seq, c.batch}) expected["output"] = Json::array();
  expected["forward"] = c.tp == 1 ? Json::array() : merge_sums(expected.at("forward"));
  return expected;
}

// The recorder does not keep which reduction it was; a finite loss shows that the first one of the
// cross-entropy was the maximum.
Json as_of_a_loss(Json answer) {
  if (!answer.is_object()) return answer;
  if (!answer.at("forward").empty() && answer["forward"][0][0] == "all_reduce") {
    answer["forward"][0][0] = "all_reduce_max";
  }
  answer["forward"] = merge_sums(answer.at("forward"));
  return answer;
}

Outcome compare(const LayerCase& c, Json expected, Json answers) {
  const Rule* rule = nullptr;
  if (expected == refusal()) {
    if (c.tp == 1 && c.sequence_parallel && answers.at(0).is_object()) {
      rule = &rules::kSequenceParallelOnOneRank;
      expected = answers.at(0);
      expected["forward"] = expected["backward"] = Json::array();
    }
  } else if (rules::of_size(c.hidden) != nullptr) {
    rule = &rules::kSizeBelowOne;
    expected = refusal();
  } else if (c.layer == "cross_entropy") {
    rule = &rules::kMeanLoss;
    expected = as_of_our_loss(c, expected);
    for (Json& answer : answers) answer = as_of_a_loss(answer);
  }
  return {Json(answers.size(), expected), answers, rule};
}

Outcome check_collectives(const Json& test_case) {
  known(layers(), "layer", test_case.at("layer"));
  const LayerCase c(test_case);
  const Json expected = errors_as_refusals(test_case.at("expect"));
  if (c.tp >= 1) return compare(c, expected, test_case.at("answers"));
  const auto answer = [&] { return megatron::weight_shard({.weight = {1, 1}}, 0, c.tp).shape; };
  return judge(expected, answer, &rules::kSizeBelowOne);
}

}  // namespace

Json answer_tensor_collectives(const Json& test_case, World& world) {
  const LayerCase c(test_case);
  const Layer layer = known(layers(), "layer", c.layer);
  const LayerRun run(c, world);
  const int64_t before = next_record(world);
  const at::Tensor output = (run.*layer)();
  Json answer{{"output", output.sizes().vec()}, {"forward", issued_since(before, world)}};
  const int64_t between = next_record(world);
  output.sum().backward();
  answer["backward"] = issued_since(between, world);
  use_the_peers_layout(c, answer);
  return answer;
}

Check tensor_collectives_check() {
  return check_collectives;
}

std::vector<Json> with_collectives(std::vector<Json> cases) {
  const auto no_ranks = [](const Json& c) { return c.at("tp") < 1; };
  const auto rest = std::ranges::stable_partition(cases, no_ranks);
  const std::vector<Json> ranked(rest.begin(), rest.end());
  cases.erase(rest.begin(), rest.end());
  const auto tp = [](const Json& c) { return c.at("tp").get<int64_t>(); };
  for (Json& one : with_answers("tensor_parallel", ranked, tp)) cases.push_back(std::move(one));
  return cases;
}

}  // namespace tessera::golden
