#include "tessera/parallel/tensor/internal/layer_rules.h"

#include <torch/nn/modules/embedding.h>

#include <algorithm>
#include <memory>
#include <variant>

#include "tessera/base/check.h"
#include "tessera/base/name_pattern.h"

namespace tessera::tensor::detail {
namespace {

namespace nn = torch::nn;

void check_layout(const Placement& layout) {
  TSR_CHECK(std::holds_alternative<Replicate>(layout) || std::holds_alternative<Shard>(layout),
            "layout ", layout, " is neither Replicate nor Shard");
}

bool is_embedding(const nn::Module& module) {
  return module.as<nn::EmbeddingImpl>() != nullptr;
}

at::Tensor own_parameter(const nn::Module& module, const std::string& name) {
  const auto parameters = module.named_parameters(/*recurse=*/false);
  const at::Tensor* const found = parameters.find(name);
  return found == nullptr ? at::Tensor() : *found;
}

// Of a linear layer or an embedding; otherwise undefined.
at::Tensor matrix_of(const nn::Module& module) {
  const at::Tensor weight = own_parameter(module, "weight");
  return weight.defined() && weight.dim() == 2 ? weight : at::Tensor();
}

bool prepares(const ParallelStyle& style) {
  return std::holds_alternative<PrepareModuleInput>(style) ||
         std::holds_alternative<PrepareModuleOutput>(style);
}

const char* name_of(LayerSplit split) {
  switch (split) {
    case LayerSplit::kOutputs:
      return "colwise";
    case LayerSplit::kInputs:
      return "rowwise";
    case LayerSplit::kPositions:
      return "sequence";
    case LayerSplit::kNone:
      break;
  }
  return "whole";
}

std::string text_of(const LayerRule& rule) {
  return concat(name_of(rule.split), " ", rule.input, " to ", rule.output);
}

/// Turns a plan into rules of layers.
class PlanReader {
 public:
  PlanReader(const nn::Module& module, const ParallelPlan& plan);

  const std::map<std::string, LayerRule>& layers() const& { return layers_; }
  const nn::Module& module(const std::string& name) const {
    return name.empty() ? root_ : *modules_.at(name);
  }

 private:
  void add(const std::string& name, const ColwiseParallel& style);
  void add(const std::string& name, const RowwiseParallel& style);
  void add(const std::string& name, const SequenceParallel& style);
  void add(const std::string& name, const PrepareModuleInput& style);
  void add(const std::string& name, const PrepareModuleOutput& style);

  void add_layer(const LayerRule& rule);
  void check_matrix(const std::string& name, const char* style) const;
  /// Changes a layout of the layers of a module that have `from`: its own, or its children's.
  void convert(const std::string& name, Placement LayerRule::*layout, const Placement& from,
               const Placement& to, const char* style);

  const nn::Module& root_;
  std::map<std::string, std::shared_ptr<nn::Module>> modules_ = {};
  std::map<std::string, LayerRule> layers_ = {};
};

// Conversions last: they change the layouts of layers that other lines of the plan may name.
PlanReader::PlanReader(const nn::Module& module, const ParallelPlan& plan) : root_(module) {
  std::vector<std::string> names;
  for (const auto& item : module.named_modules("", /*include_self=*/false)) {
    names.push_back(item.key());
    modules_[item.key()] = item.value();
  }
  TSR_CHECK(!plan.empty(), "the plan is empty; name the layers to split");
  for (const bool is_second : {false, true}) {
    for (const auto& [pattern, style] : plan) {
      if (prepares(style) != is_second) continue;
      const auto matching =
          pattern.empty() ? std::vector<std::string>{""} : names_matching(pattern, names);
      for (const std::string& name : matching) {
        std::visit([&](const auto& kind) { add(name, kind); }, style);
      }
    }
  }
}

void PlanReader::check_matrix(const std::string& name, const char* style) const {
  const nn::Module& given = module(name);
  TSR_CHECK(matrix_of(given).defined(), style, " cannot split module '", name, "', a ",
            given.name(), "; it splits torch::nn::Linear, torch::nn::Embedding and modules with a ",
            "two-dimensional parameter 'weight'");
  const auto* const embedding = given.as<nn::EmbeddingImpl>();
  TSR_CHECK(embedding == nullptr || !embedding->options.max_norm(), style,
            " cannot split embedding '", name, "', which renormalizes its weight (max_norm)");
}

void PlanReader::add_layer(const LayerRule& rule) {
  check_layout(rule.input);
  check_layout(rule.output);
  const auto [known, is_new] = layers_.emplace(rule.name, rule);
  TSR_CHECK(is_new || text_of(known->second) == text_of(rule), "module '", rule.name,
            "' has two styles: ", text_of(known->second), ", and ", text_of(rule),
            "; let one pattern match it");
}

void PlanReader::add(const std::string& name, const ColwiseParallel& style) {
  check_matrix(name, "ColwiseParallel");
  add_layer({name, LayerSplit::kOutputs, style.input_layouts, style.output_layouts});
}

void PlanReader::add(const std::string& name, const RowwiseParallel& style) {
  check_matrix(name, "RowwiseParallel");
  const auto* const embedding = module(name).as<nn::EmbeddingImpl>();
  TSR_CHECK(embedding == nullptr || !embedding->options.padding_idx(), "RowwiseParallel cannot ",
            "split the rows of embedding '", name, "', which has a padding index; use ",
            "ColwiseParallel");
  const Placement input = embedding != nullptr ? Placement(Replicate{}) : Shard{-1};
  add_layer({name, LayerSplit::kInputs, style.input_layouts.value_or(input), style.output_layouts});
}

void PlanReader::add(const std::string& name, const SequenceParallel& style) {
  const Shard positions{style.sequence_dim};
  add_layer({name, LayerSplit::kPositions, positions, positions, positions});
}

void PlanReader::add(const std::string& name, const PrepareModuleInput& style) {
  convert(name, &LayerRule::input, style.desired_input_layouts, style.input_layouts,
          "PrepareModuleInput");
}

void PlanReader::add(const std::string& name, const PrepareModuleOutput& style) {
  convert(name, &LayerRule::output, style.output_layouts, style.desired_output_layouts,
          "PrepareModuleOutput");
}

void PlanReader::convert(const std::string& name, Placement LayerRule::*layout,
                         const Placement& from, const Placement& to, const char* style) {
  check_layout(from);
  check_layout(to);
  std::vector<std::string> own{name};
  for (const auto& child : module(name).named_children()) {
    own.push_back(name.empty() ? child.key() : concat(name, ".", child.key()));
  }
  const bool is_layer = !module(name).parameters(/*recurse=*/false).empty();
  if (is_layer && !layers_.contains(name)) add_layer({.name = name});
  bool is_used = false;
  for (const std::string& layer : own) {
    const auto found = layers_.find(layer);
    if (found == layers_.end() || found->second.*layout != from) continue;
    found->second.*layout = to;
    is_used = true;
  }
  TSR_CHECK(is_used, style, " of module '", name, "' finds no layer with layout ", from,
            ": it converts for layers of the plan that are the module or its children");
}

/// The rules of the parameters of layers.
class RuleMaker {
 public:
  explicit RuleMaker(const PlanReader& plan) : plan_(plan) {
    for (const auto& [name, layer] : plan.layers()) add(layer);
  }
  ParameterRules rules() && { return std::move(rules_); }

 private:
  void add(const LayerRule& layer);
  void add_matrix(const LayerRule& layer, const at::Tensor& weight);
  void add_others(const LayerRule& layer);
  void add(const ParameterRule& rule);

  const PlanReader& plan_;
  ParameterRules rules_ = {};
};

void RuleMaker::add(const LayerRule& layer) {
  const at::Tensor weight = matrix_of(plan_.module(layer.name));
  if (weight.defined() && layer.split != LayerSplit::kPositions) {
    add_matrix(layer, weight);
  } else {
    add_others(layer);
  }
}

std::string named(const LayerRule& layer, const std::string& parameter) {
  return layer.name.empty() ? parameter : concat(layer.name, ".", parameter);
}

void RuleMaker::add_matrix(const LayerRule& layer, const at::Tensor& weight) {
  const nn::Module& module = plan_.module(layer.name);
  const bool embeds = is_embedding(module);
  ParameterRule rule{.name = named(layer, "weight"), .tensor = weight};
  if (layer.split != LayerSplit::kNone) {
    const bool by_outputs = layer.split == LayerSplit::kOutputs;
    rule.dim = by_outputs == embeds ? 1 : 0;
  }
  (embeds ? rule.embedding : rule.linear) = layer;
  add(rule);
  const at::Tensor bias = own_parameter(module, "bias");
  if (!bias.defined()) return;
  // Added to the output in its final layout.
  ParameterRule of_bias{.name = named(layer, "bias"), .tensor = bias};
  if (layer.output == Placement(Shard{-1})) {
    of_bias.dim = 0;
  } else {
    of_bias.sums_gradient = layer.output != Placement(Replicate{});
  }
  add(of_bias);
}

// A norm, or anything that each rank computes for its positions.
void RuleMaker::add_others(const LayerRule& layer) {
  const bool converts = layer.input != layer.inside || layer.output != layer.inside;
  for (const auto& item : plan_.module(layer.name).named_parameters()) {
    ParameterRule rule{.name = named(layer, item.key()), .tensor = item.value()};
    rule.sums_gradient = layer.split == LayerSplit::kPositions;
    if (converts) rule.norm = layer;
    add(rule);
  }
}

// A tensor may belong to several layers.
void RuleMaker::add(const ParameterRule& rule) {
  const auto [found, is_new] = rules_.emplace(rule.tensor.unsafeGetTensorImpl(), rule);
  ParameterRule& known = found->second;
  known.shape = rule.tensor.sizes().vec();
  if (is_new) return;
  const auto clash = [](const auto& a, const auto& b) {
    return a && b && text_of(*a) != text_of(*b);
  };
  TSR_CHECK(known.dim == rule.dim && known.sums_gradient == rule.sums_gradient &&
                !clash(known.linear, rule.linear) && !clash(known.embedding, rule.embedding) &&
                !clash(known.norm, rule.norm),
            "parameters '", known.name, "' and '", rule.name, "' are one tensor, but ",
            known.text(), " does not fit ", rule.text(), "; split both along one dimension");
  if (rule.linear) known.linear = rule.linear;
  if (rule.embedding) known.embedding = rule.embedding;
}

}  // namespace

std::string ParameterRule::text() const {
  std::string text = dim ? concat("split along dimension ", *dim) : "whole";
  if (sums_gradient) text += ", with summed gradient";
  for (const auto& layer : {linear, embedding, norm}) {
    if (layer) text += concat(", ", text_of(*layer));
  }
  return text;
}

ParameterRules rules_of(const torch::nn::Module& module, const ParallelPlan& plan) {
  const PlanReader reader(module, plan);
  return RuleMaker(reader).rules();
}

}  // namespace tessera::tensor::detail
