#include "tessera/plan/traffic.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/plan/head_split.h"

namespace tessera {
namespace {

void check_flag(const char* name, int64_t value) {
  TSR_CHECK(value > 0, name, " is ", value, ", but must be at least 1");
}

// The symbols of the formulas.
struct Letters {
  double activations;  // A
  double layers;       // L, per stage.
  double microbatches;
  double weights;  // W, per rank, before data parallelism shards them.
  double tensor;
  double queries;  // Q
  double keys;     // K
};

// Of a rank's elements per token.
struct HeadWidths {
  double queries, keys;
};

HeadWidths head_widths(const DialectPlan& layout, const TrainingStep& step) {
  const int64_t tp = layout.size(Role::kTensor);
  if (!step.heads) {
    const double width = static_cast<double>(step.hidden) / static_cast<double>(tp);
    return {width, width};
  }
  const HeadSplit own = split_heads(step.heads->query, step.heads->kv, tp, /*rank=*/0);
  return {static_cast<double>(own.query_heads.size() * step.heads->size),
          static_cast<double>(own.kv_heads.size() * step.heads->size)};
}

Letters letters_of(const DialectPlan& layout, const TrainingStep& step) {
  const auto size = [&](Role role) { return static_cast<double>(layout.size(role)); };
  const double tokens = static_cast<double>(step.micro_batch) * static_cast<double>(step.sequence) /
                        size(Role::kContext);
  const auto bytes = static_cast<double>(step.element_bytes);
  const HeadWidths widths = head_widths(layout, step);
  return {.activations = bytes * tokens * static_cast<double>(step.hidden),
          .layers = static_cast<double>(step.layers) / size(Role::kPipeline),
          .microbatches = static_cast<double>(step.microbatches),
          .weights = bytes * step.num_parameters() / size(Role::kTensor) / size(Role::kPipeline),
          .tensor = size(Role::kTensor),
          .queries = bytes * tokens * widths.queries,
          .keys = bytes * tokens * widths.keys};
}

/// The exchanges of context parallelism.
class ContextTraffic {
 public:
  ContextTraffic(const DialectPlan& layout, const TrainingStep& step)
      : at_(letters_of(layout, step)),
        per_layer_(at_.microbatches * at_.layers),
        wide_(static_cast<int64_t>(step.element_bytes < 4 ? 4 / step.element_bytes : 1)),
        kv_heads_(step.heads ? split_heads(step.heads->query, step.heads->kv,
                                           layout.size(Role::kTensor), /*rank=*/0)
                                   .kv_heads.size()
                             : std::numeric_limits<int64_t>::max()) {}

  // Keys and values once in each pass, their gradients once more than that.
  Traffic ring(int64_t n, int64_t copies = 1) const {
    const int64_t times = 4 + 2 * wide_;
    return {
        "", "ring exchange of keys and values, in the backward of their gradients as well",
        concat("(", times, "n − 4) · M · L · K", copies_text(copies)), Pattern::kRing,
        static_cast<double>(times * n - 4) * per_layer_ * at_.keys * static_cast<double>(copies)};
  }

  Traffic gathered(int64_t n) const {
    const int64_t times = 4 + 2 * wide_;
    return {"", "all-gather of keys and values in each pass, reduce-scatter of their gradients",
            concat(times, " · M · L · K · (n−1)"), Pattern::kRing,
            static_cast<double>(times * (n - 1)) * per_layer_ * at_.keys};
  }

  Traffic exchanged(int64_t n) const {
    const int64_t copies = copies_of(n);
    const double size = at_.queries + at_.keys * static_cast<double>(copies);
    return {"", "all-to-all of queries, keys and values, and of the output, in each pass",
            concat("4 · M · L · (Q + K", copies_text(copies), ") · (n−1)/n"), Pattern::kAllToAll,
            4 * per_layer_ * size * static_cast<double>(n - 1) / static_cast<double>(n)};
  }

  // How often the ranks of an all-to-all copy each key-value head.
  int64_t copies_of(int64_t n) const { return std::max<int64_t>(1, n / kv_heads_); }

 private:
  static std::string copies_text(int64_t copies) {
    return copies == 1 ? "" : concat(" · ", copies);
  }

  Letters at_;
  double per_layer_;
  int64_t wide_;  // Bytes of a gradient's sum / bytes of an element.
  int64_t kv_heads_;
};

Traffic named(Traffic traffic, const std::string& name) {
  traffic.name = name;
  return traffic;
}

std::vector<Traffic> context_traffic(const DialectPlan& layout, const std::string& name,
                                     const TrainingStep& step) {
  const ContextTraffic of(layout, step);
  const int64_t n = layout.size(Role::kContext);
  const std::string& type = step.context.type;
  if (type == "all-gather") return {named(of.gathered(n), name)};
  if (type == "ulysses") return {named(of.exchanged(n), name)};
  if (type != "hierarchical") return {named(of.ring(n), name)};
  const int64_t inner = step.context.sizes.at(0);
  std::vector<Traffic> both;
  if (inner > 1) both.push_back(named(of.exchanged(inner), "cp_all_to_all"));
  if (inner < n) both.push_back(named(of.ring(n / inner, of.copies_of(inner)), "cp_ring"));
  return both;
}

// The traffic of a role, without the name of its group.
std::optional<Traffic> traffic_of(Role role, const DialectPlan& layout, const TrainingStep& step) {
  const Letters at = letters_of(layout, step);
  const auto n = static_cast<double>(layout.size(role));
  const double per_layer = at.microbatches * at.layers * at.activations;
  const double part = (n - 1) / n;
  switch (role) {
    case Role::kTensor:
      if (step.sequence_parallel) {
        return Traffic{"", "6 all-gathers and 4 reduce-scatters of activations per layer",
                       "10 · M · L · A · (n−1)/n", Pattern::kRing, 10 * per_layer * part};
      }
      return Traffic{"", "4 all-reduces of activations per layer and micro-batch",
                     "4 · M · L · A · 2(n−1)/n", Pattern::kRing, 4 * per_layer * 2 * part};
    case Role::kPipeline: {
      const double times = n > 2 ? 2 : 1;
      const bool splits = step.sequence_parallel && at.tensor > 1;  // Each rank its positions.
      return Traffic{"", "activations to the next stage, their gradients to the previous one",
                     concat(n > 2 ? "2 · M · A" : "M · A", splits ? "/tp" : ""), Pattern::kLine,
                     times * at.microbatches * at.activations / (splits ? at.tensor : 1)};
    }
    case Role::kExpert:
      return Traffic{"", "tokens to their experts and back, forward and backward",
                     "4 · M · L · k · A · (n−1)/n", Pattern::kAllToAll,
                     4 * per_layer * static_cast<double>(step.experts_per_token) * part};
    case Role::kGradients:
      return Traffic{"", "all-reduce of the gradients", "W · 2(n−1)/n", Pattern::kRing,
                     at.weights * 2 * part};
    case Role::kShards:
      return Traffic{"", "all-gather of the parameters twice, reduce-scatter of the gradients once",
                     "3 · W · (n−1)/n", Pattern::kRing, 3 * at.weights * part};
    case Role::kReplicas:
      return Traffic{"", "all-reduce of the gradients of a shard", "W/shards · 2(n−1)/n",
                     Pattern::kRing,
                     at.weights / static_cast<double>(layout.size(Role::kShards)) * 2 * part};
    case Role::kContext:  // context_traffic().
    case Role::kData:
    case Role::kExpertGradients:
    case Role::kExpertTensor:
      return std::nullopt;  // Small, or experts, which are not counted separately.
  }
  return std::nullopt;
}

Link widest_link(const RankGroup& group, const Machine& machine) {
  Link widest = Link::kInNode;
  for (const GlobalRank rank : group) {
    widest = std::max(widest, link_between(group.front(), rank, machine));
  }
  return widest;
}

void add_ring(const RankGroup& group, double bytes, const Machine& machine, PerLink& sum) {
  for (size_t i = 0; i < group.size(); ++i) {
    sum[link_between(group[i], group[(i + 1) % group.size()], machine)] += bytes;
  }
}

// A middle stage sends half of its bytes in each direction.
void add_line(const RankGroup& group, double bytes, const Machine& machine, PerLink& sum) {
  const double one_way = group.size() > 2 ? bytes / 2 : bytes;
  for (size_t i = 0; i + 1 < group.size(); ++i) {
    sum[link_between(group[i], group[i + 1], machine)] += 2 * one_way;
  }
}

void add_all_to_all(const RankGroup& group, double bytes, const Machine& machine, PerLink& sum) {
  const double to_each = bytes / static_cast<double>(group.size() - 1);
  for (const GlobalRank from : group) {
    for (const GlobalRank to : group) {
      if (from != to) sum[link_between(from, to, machine)] += to_each;
    }
  }
}

}  // namespace

double TrainingStep::num_parameters() const {
  if (parameters) return static_cast<double>(*parameters);
  return 12 * static_cast<double>(layers) * static_cast<double>(hidden) *
         static_cast<double>(hidden);
}

void check(const TrainingStep& step, const DialectPlan& layout) {
  check_flag("--hidden", step.hidden);
  check_flag("--layers", step.layers);
  check_flag("--sequence", step.sequence);
  check_flag("--micro-batch", step.micro_batch);
  check_flag("--microbatches", step.microbatches);
  check_flag("--experts-per-token", step.experts_per_token);
  check_flag("--parameters", step.parameters.value_or(1));
  const int64_t stages = layout.size(Role::kPipeline);
  TSR_CHECK(step.layers >= stages, "--layers ", step.layers, " are too few for ", stages,
            " pipeline stages; give at least ", stages, ", or fewer stages");
}

std::vector<Traffic> traffic_of(const DialectPlan& layout, const TrainingStep& step) {
  check(step, layout);
  std::vector<Traffic> all;
  for (const auto& [role, name] : layout.roles) {
    if (role == Role::kContext && layout.size(role) > 1) {
      std::ranges::move(context_traffic(layout, name, step), std::back_inserter(all));
    }
    std::optional<Traffic> traffic = traffic_of(role, layout, step);
    // Megatron shards its optimizer, but all-reduces gradients.
    const bool counted = role == Role::kShards && layout.find(Role::kGradients) != nullptr;
    if (!traffic || counted || layout.size(role) == 1) continue;
    traffic->name = name;
    all.push_back(std::move(*traffic));
  }
  return all;
}

const char* traffic_assumptions() {
  return "Elements have 2 bytes (bf16), sums of the gradients of keys and values 4. Collectives "
         "run "
         "as rings in rank order: an all-reduce sends 2(n−1)/n of the data, an all-gather or a "
         "reduce-scatter (n−1)/n. Ranks of cp form a ring. Attention has as many key as query "
         "heads, every layer is alike and, if there are experts, has them; parameters are "
         "12 · layers · hidden² unless given, and experts' parameters are not counted apart. An "
         "estimate to compare layouts by, not a measurement.";
}

std::vector<Symbol> traffic_symbols(const DialectPlan& layout, const TrainingStep& step) {
  const Letters at = letters_of(layout, step);
  std::vector<Symbol> symbols{
      {"A",
       "bytes of a micro-batch's activations on a rank: 2 · micro-batch · sequence/cp · hidden",
       at.activations, true},
      {"W", "bytes of weights per rank: 2 · parameters/(tp · pp)", at.weights, true},
      {"L", "layers per stage: layers/pp", at.layers},
      {"M", "micro-batches per step", at.microbatches},
      {"k", "experts per token", static_cast<double>(step.experts_per_token)}};
  if (layout.size(Role::kContext) > 1) {
    symbols.push_back({"Q", "bytes of a micro-batch's queries on a rank", at.queries, true});
    symbols.push_back({"K", "bytes of a micro-batch's keys on a rank", at.keys, true});
  }
  return symbols;
}

const char* to_string(Link link) {
  switch (link) {
    case Link::kInNode:
      return "in node";
    case Link::kAcrossNodes:
      return "across nodes";
    case Link::kAcrossRacks:
      return "across racks";
  }
  return "unknown";
}

Link link_between(GlobalRank a, GlobalRank b, const Machine& machine) {
  const int64_t node_a = a.value / machine.gpus_per_node;
  const int64_t node_b = b.value / machine.gpus_per_node;
  if (node_a == node_b) return Link::kInNode;
  if (!machine.nodes_per_rack) return Link::kAcrossNodes;
  const bool same_rack = node_a / *machine.nodes_per_rack == node_b / *machine.nodes_per_rack;
  return same_rack ? Link::kAcrossNodes : Link::kAcrossRacks;
}

double& PerLink::operator[](Link link) {
  switch (link) {
    case Link::kInNode:
      return in_node;
    case Link::kAcrossNodes:
      return across_nodes;
    case Link::kAcrossRacks:
      return across_racks;
  }
  return in_node;
}

PerLink groups_per_link(const GroupFamily& groups, const Machine& machine) {
  PerLink count;
  for (const RankGroup& group : groups.groups()) count[widest_link(group, machine)] += 1;
  return count;
}

PerLink bytes_per_link(const GroupFamily& groups, const Traffic& traffic, const Machine& machine) {
  PerLink sum;
  for (const RankGroup& group : groups.groups()) {
    if (group.size() == 1) continue;
    switch (traffic.pattern) {
      case Pattern::kRing:
        add_ring(group, traffic.bytes, machine, sum);
        break;
      case Pattern::kLine:
        add_line(group, traffic.bytes, machine, sum);
        break;
      case Pattern::kAllToAll:
        add_all_to_all(group, traffic.bytes, machine, sum);
        break;
    }
  }
  return sum;
}

}  // namespace tessera
