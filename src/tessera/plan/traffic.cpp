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
  double weights;  // W, per rank, before data parallelism shards them, without experts.
  double tensor;
  double queries;         // Q
  double keys;            // K
  double expert_layers;   // E, per stage.
  double expert_weights;  // X, like W.
  double expert_ranks;    // ep.
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
  const auto experts = static_cast<double>(step.expert_parameters);
  const double stages = size(Role::kPipeline);
  return {
      .activations = bytes * tokens * static_cast<double>(step.hidden),
      .layers = static_cast<double>(step.layers) / stages,
      .microbatches = static_cast<double>(step.microbatches),
      .weights = bytes * (step.num_parameters() - experts) / size(Role::kTensor) / stages,
      .tensor = size(Role::kTensor),
      .queries = bytes * tokens * widths.queries,
      .keys = bytes * tokens * widths.keys,
      .expert_layers = static_cast<double>(step.expert_layers.value_or(step.layers)) / stages,
      .expert_weights = bytes * experts / size(Role::kExpert) / size(Role::kExpertTensor) / stages,
      .expert_ranks = size(Role::kExpert)};
}

/// The exchanges of context parallelism.
class ContextTraffic {
 public:
  ContextTraffic(const DialectPlan& layout, const TrainingStep& step)
      : at_(letters_of(layout, step)),
        per_layer_(at_.microbatches * at_.layers),
        wide_(step.element_bytes < 4 ? 4 / step.element_bytes : 1),
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

// Each token is on one rank of tp when it goes to its experts.
Traffic expert_traffic(const Letters& at, double n, const TrainingStep& step) {
  const double tokens = at.microbatches * at.expert_layers * at.activations / at.tensor;
  if (step.gathers_tokens) {
    return {"", "all-gather of tokens and reduce-scatter of results, forward and backward",
            "4 · M · E · A/tp · (n−1)", Pattern::kRing, 4 * tokens * (n - 1)};
  }
  const double bytes = static_cast<double>(step.element_bytes * step.hidden);
  const double rows = tokens / bytes * static_cast<double>(step.experts_per_token) * (n - 1) / n;
  return {"", "tokens to their experts and back, forward and backward",
          "4 · M · E · k · A/tp · (n−1)/n", Pattern::kAllToAll, dispatch_bytes(rows, rows, step)};
}

// The ranks of etp gather the rows, or the tokens, that their ranks of ep have.
Traffic expert_tensor_traffic(const Letters& at, double n, const TrainingStep& step) {
  const double tokens = at.microbatches * at.expert_layers * at.activations / at.tensor;
  const double times =
      step.gathers_tokens ? at.expert_ranks : static_cast<double>(step.experts_per_token);
  return {"", "all-gather of rows of experts and reduce-scatter of results, forward and backward",
          concat("4 · M · E · ", step.gathers_tokens ? "ep" : "k", " · A/tp · (n−1)"),
          Pattern::kRing, 4 * tokens * times * (n - 1)};
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
      return expert_traffic(at, n, step);
    case Role::kExpertTensor:
      return expert_tensor_traffic(at, n, step);
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
    case Role::kExpertGradients:
      return Traffic{"", "all-reduce of the gradients of experts", "X · 2(n−1)/n", Pattern::kRing,
                     at.expert_weights * 2 * part};
    case Role::kExpertShards:
      return Traffic{"", "all-gather of the experts twice, reduce-scatter of their gradients once",
                     "3 · X · (n−1)/n", Pattern::kRing, 3 * at.expert_weights * part};
    case Role::kExpertReplicas:
      return Traffic{
          "", "all-reduce of the gradients of a shard of experts", "X/shards · 2(n−1)/n",
          Pattern::kRing,
          at.expert_weights / static_cast<double>(layout.size(Role::kExpertShards)) * 2 * part};
    case Role::kContext:  // context_traffic().
    case Role::kData:
      return std::nullopt;
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
  const auto experts = static_cast<double>(step.expert_parameters);
  TSR_CHECK(0 <= experts && experts <= step.num_parameters(), "--expert-parameters ",
            step.expert_parameters, " must be some of the ", step.num_parameters(), " parameters");
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
    const bool empty = !traffic || traffic->bytes == 0;
    if (empty || counted || layout.size(role) == 1) continue;
    traffic->name = name;
    all.push_back(std::move(*traffic));
  }
  return all;
}

double dispatch_bytes(double out, double in, const TrainingStep& step) {
  // There and back in the forward pass, and the same for the gradients.
  return 2 * (out + in) * static_cast<double>(step.element_bytes * step.hidden);
}

const char* traffic_assumptions() {
  return "Elements have 2 bytes (bf16), sums of the gradients of keys and values 4. Collectives "
         "run "
         "as rings in rank order: an all-reduce sends 2(n−1)/n of the data, an all-gather or a "
         "reduce-scatter (n−1)/n. Ranks of cp form a ring. Attention has as many key as query "
         "heads, and every layer is alike. Routers spread tokens evenly over experts. Parameters "
         "are 12 · layers · hidden² unless given. An "
         "estimate to compare layouts by, not a measurement.";
}

std::vector<Symbol> traffic_symbols(const DialectPlan& layout, const TrainingStep& step) {
  const Letters at = letters_of(layout, step);
  const bool experts = layout.size(Role::kExpert) > 1 || step.expert_parameters > 0;
  std::vector<Symbol> symbols{
      {"A",
       "bytes of a micro-batch's activations on a rank: 2 · micro-batch · sequence/cp · hidden",
       at.activations, true},
      {"W", "bytes of weights per rank, without experts: 2 · parameters/(tp · pp)", at.weights,
       true},
      {"L", "layers per stage: layers/pp", at.layers},
      {"M", "micro-batches per step", at.microbatches}};
  if (layout.size(Role::kContext) > 1) {
    symbols.push_back({"Q", "bytes of a micro-batch's queries on a rank", at.queries, true});
    symbols.push_back({"K", "bytes of a micro-batch's keys on a rank", at.keys, true});
  }
  if (!experts) return symbols;
  symbols.push_back({"X", "bytes of experts per rank: 2 · parameters of experts/(ep · etp · pp)",
                     at.expert_weights, true});
  symbols.push_back({"E", "layers with experts per stage", at.expert_layers});
  symbols.push_back({"k", "experts per token", static_cast<double>(step.experts_per_token)});
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
