#include "tessera/parallel/tensor/internal/split_operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/layer/tokens.h"
#include "tessera/parallel/tensor/internal/layouts.h"
#include "tessera/topology/box.h"

namespace tessera::tensor::detail {
namespace {

constexpr int kNoPass = -1;  // The engine's task id outside of a backward pass.

template <size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Operators that read no values.
constexpr std::array<std::string_view, 14> kWithoutValues{
    "aten::detach",         "aten::detach_",     "aten::alias",      "aten::data",
    "aten::set_data",       "aten::is_leaf",     "aten::output_nr",  "aten::_version",
    "aten::requires_grad_", "aten::retain_grad", "aten::zeros_like", "aten::ones_like",
    "aten::empty_like",     "aten::full_like"};
constexpr std::array<std::string_view, 4> kTranspositions{"aten::t", "aten::transpose",
                                                          "aten::numpy_T", "aten::mT"};
constexpr std::array<std::string_view, 2> kNorms{"aten::layer_norm", "aten::rms_norm"};
/// Operators of forward passes, not of optimizers: a weight that is split is wrong there even
/// without gradients.
constexpr std::array<std::string_view, 9> kProducts{
    "aten::matmul", "aten::mm",     "aten::addmm",    "aten::bmm",          "aten::mv",
    "aten::einsum", "aten::linear", "aten::bilinear", "aten::index_select",
};

// Without gradients of gradients: then it runs forward passes, as recomputation does.
bool is_in_backward() {
  return torch::autograd::get_current_graph_task_id() != kNoPass && !at::GradMode::is_enabled();
}

LayerSplit split_along(const std::optional<size_t>& dim, size_t dim_of_outputs) {
  if (!dim) return LayerSplit::kNone;
  return *dim == dim_of_outputs ? LayerSplit::kOutputs : LayerSplit::kInputs;
}

// The rule of a linear layer with this weight, which may be an embedding's.
LayerRule linear_rule(const ParameterRule& weight) {
  if (weight.linear) return *weight.linear;
  return {.name = weight.embedding->name,
          .split = split_along(weight.dim, 0),
          .input = weight.embedding->output};
}

LayerRule embedding_rule(const ParameterRule& weight) {
  if (weight.embedding) return *weight.embedding;
  return {.name = weight.linear->name,
          .split = split_along(weight.dim, 1),
          .output = weight.linear->input};
}

bool is_transpose(const at::Tensor& view, const at::Tensor& weight) {
  return view.dim() == 2 && view.size(0) == weight.size(1) && view.size(1) == weight.size(0) &&
         view.stride(0) == weight.stride(1) && view.stride(1) == weight.stride(0);
}

std::vector<at::Tensor> tensors_of(const c10::IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  return value.isTensorList() ? value.toTensorVector() : std::vector<at::Tensor>();
}

at::Tensor tensor_or_none(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

[[noreturn]] void refuse(const std::string& name, const ParameterRule& rule) {
  throw ConfigError(concat(
      "operator ", name, " reads '", rule.name, "', which parallelize_module() has given a style (",
      rule.text(), "), and cannot be split; use torch::linear(x, weight), embedding, layer_norm ",
      "or rms_norm, or read this rank's part under at::NoGradGuard"));
}

}  // namespace

SplitOperators::SplitOperators(ParameterRules rules, Group group)
    : rules_(std::move(rules)), group_(std::move(group)) {}

bool SplitOperators::run(const c10::OperatorHandle& op, std::vector<c10::IValue>& stack) {
  const std::string& name = op.operator_name().name;
  if (is_in_backward() || is_one_of(kWithoutValues, name)) return false;
  TSR_CHECK(!c10::InferenceMode::is_enabled(), "operator ", name, " reads a parameter of ",
            "parallelize_module() in inference mode, which hides views; use at::NoGradGuard");
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const Arguments arguments(stack.end() - count, stack.end());
  std::optional<Arguments> results = results_of(op, arguments);
  if (!results) return false;
  stack.erase(stack.end() - count, stack.end());
  std::ranges::move(*results, std::back_inserter(stack));
  return true;
}

std::optional<SplitOperators::Arguments> SplitOperators::results_of(const c10::OperatorHandle& op,
                                                                    const Arguments& arguments) {
  const std::string& name = op.operator_name().name;
  if (const std::optional<Product> call = product_in(name, arguments)) {
    return Arguments{product(*call)};
  }
  const ParameterRule* const weight = weight_in(arguments);
  if (name == "aten::embedding" && weight != nullptr) {
    return Arguments{embedding(*weight, arguments)};
  }
  const ParameterRule* const of_norm = norm_in(arguments);
  if (is_one_of(kNorms, name) && of_norm != nullptr) {
    return Arguments{norm(op, *of_norm, arguments)};
  }
  if (weight != nullptr && is_one_of(kTranspositions, name)) return std::nullopt;
  if (weight != nullptr && is_one_of(kProducts, name)) refuse(name, *weight);
  if (!at::GradMode::is_enabled()) return std::nullopt;
  if (weight != nullptr) refuse(name, *weight);
  if (of_norm != nullptr) refuse(name, *of_norm);
  Arguments values = with_sums(arguments);
  op.callBoxed(values);
  return values;
}

const ParameterRule* SplitOperators::rule_of(const at::TensorBase& tensor) const {
  const auto found = rules_.find(tensor.unsafeGetTensorImpl());
  return found == rules_.end() ? nullptr : &found->second;
}

const ParameterRule* SplitOperators::transposed_rule(const c10::IValue& value) const {
  if (!value.isTensor() || !value.toTensor().is_view()) return nullptr;
  const ParameterRule* const rule = rule_of(value.toTensor()._base());
  const bool fits = rule != nullptr && rule->is_weight();
  return fits && is_transpose(value.toTensor(), rule->tensor) ? rule : nullptr;
}

std::optional<SplitOperators::Product> SplitOperators::product_in(
    const std::string& name, const Arguments& arguments) const {
  if (name == "aten::linear") {
    const ParameterRule* const rule = rule_of(arguments[1].toTensor());
    if (rule == nullptr || !rule->is_weight()) return std::nullopt;
    return Product{arguments[0].toTensor(), rule, tensor_or_none(arguments[2])};
  }
  if (name == "aten::matmul" || name == "aten::mm") {
    const ParameterRule* const rule = transposed_rule(arguments[1]);
    if (rule == nullptr) return std::nullopt;
    return Product{arguments[0].toTensor(), rule};
  }
  if (name == "aten::addmm") {
    const ParameterRule* const rule = transposed_rule(arguments[2]);
    const bool is_plain = arguments[3].toScalar().toDouble() == 1 &&  // beta
                          arguments[4].toScalar().toDouble() == 1;    // alpha
    if (rule == nullptr || !is_plain) return std::nullopt;
    return Product{arguments[1].toTensor(), rule, arguments[0].toTensor()};
  }
  return std::nullopt;
}

const ParameterRule* SplitOperators::weight_in(const Arguments& arguments) const {
  for (const c10::IValue& value : arguments) {
    for (const at::Tensor& tensor : tensors_of(value)) {
      if (!tensor.defined()) continue;
      const ParameterRule* const rule =
          rule_of(tensor.is_view() ? tensor._base() : static_cast<const at::TensorBase&>(tensor));
      if (rule != nullptr && rule->is_weight()) return rule;
    }
  }
  return nullptr;
}

const ParameterRule* SplitOperators::norm_in(const Arguments& arguments) const {
  for (const c10::IValue& value : arguments) {
    if (!value.isTensor()) continue;
    const ParameterRule* const rule = rule_of(value.toTensor());
    if (rule != nullptr && rule->norm) return rule;
  }
  return nullptr;
}

at::Tensor SplitOperators::product(const Product& call) {
  const ParameterRule& weight = *call.weight;
  const LayerRule layer = linear_rule(weight);
  const int64_t inputs = weight.shape[1];
  at::Tensor x;
  switch (layer.split) {
    case LayerSplit::kOutputs:
      x = inputs_.get(call.x, concat("entered from ", layer.input), [&](const at::Tensor& given) {
        return entered(given, layer.input, group_, inputs);
      });
      break;
    case LayerSplit::kInputs:
      x = in_layout(call.x, layer.input, Shard{-1}, inputs);
      break;
    default:
      x = in_layout(call.x, layer.input, Replicate{}, inputs);
      break;
  }
  TSR_CHECK(x.size(-1) == weight.tensor.size(1), "layer '", layer.name, "' (", weight.text(),
            ") needs inputs of width ", weight.tensor.size(1), ", but got shape ", x.sizes());
  const at::Tensor y = in_output_layout(at::linear(x, weight.tensor), layer, weight.shape[0]);
  return call.bias.defined() ? y + with_sum(call.bias) : y;
}

at::Tensor SplitOperators::embedding(const ParameterRule& weight, const Arguments& arguments) {
  const LayerRule layer = embedding_rule(weight);
  const at::Tensor& given = arguments[1].toTensor();
  const at::Tensor tokens =
      in_layout(given, layer.input, Replicate{}, given.size(-1) * group_.size());
  const int64_t padding = arguments[2].toInt();
  TSR_CHECK(!arguments[3].toBool() && !arguments[4].toBool(), "embedding '", layer.name,
            "' cannot be split with scale_grad_by_freq or sparse gradients");
  TSR_CHECK(layer.split != LayerSplit::kInputs || padding < 0, "embedding '", layer.name,
            "' cannot split its rows with a padding index; use ColwiseParallel");
  const at::Tensor y = layer.split == LayerSplit::kInputs
                           ? own_embeddings(weight, tokens)
                           : at::embedding(weight.tensor, tokens, padding);
  return in_output_layout(y, layer, weight.shape[1]);
}

// The embeddings of this rank's tokens, zeros for all others.
at::Tensor SplitOperators::own_embeddings(const ParameterRule& weight,
                                          const at::Tensor& tokens) const {
  check_tokens(tokens.dim() == 2 ? tokens : tokens.reshape({1, -1}), weight.shape[0]);
  const Span rows = chunk(weight.shape[0], group_.size(), group_.rank().value);
  if (rows.size() == 0) {
    std::vector<int64_t> shape = tokens.sizes().vec();
    shape.push_back(weight.shape[1]);
    // Depends on the weight, so that it gets a gradient as on other ranks.
    return weight.tensor.sum() + at::zeros(shape, weight.tensor.options().requires_grad(false));
  }
  const at::Tensor foreign = (tokens < rows.begin) | (tokens >= rows.end);
  const at::Tensor own = (tokens - rows.begin).masked_fill_(foreign, 0);
  return at::embedding(weight.tensor, own).masked_fill(foreign.unsqueeze(-1), 0);
}

at::Tensor SplitOperators::norm(const c10::OperatorHandle& op, const ParameterRule& parameter,
                                const Arguments& arguments) {
  const LayerRule& layer = *parameter.norm;
  const int64_t width = parameter.shape.back();
  Arguments values = with_sums(arguments);
  values[0] = in_layout(arguments[0].toTensor(), layer.input, layer.inside, width);
  op.callBoxed(values);
  return converted(values[0].toTensor(), layer.inside, layer.output, group_, width);
}

at::Tensor SplitOperators::in_layout(const at::Tensor& x, const Placement& from,
                                     const Placement& to, int64_t width) {
  return inputs_.get(x, concat(from, " to ", to), [&](const at::Tensor& given) {
    return converted(given, from, to, group_, width);
  });
}

at::Tensor SplitOperators::in_output_layout(const at::Tensor& y, const LayerRule& layer,
                                            int64_t width) const {
  switch (layer.split) {
    case LayerSplit::kOutputs:
      return converted(y, Shard{-1}, layer.output, group_, width);
    case LayerSplit::kInputs:
      return summed(y, layer.output, group_);
    default:
      return converted(y, layer.inside, layer.output, group_, width);
  }
}

at::Tensor SplitOperators::with_sum(const at::Tensor& parameter) const {
  const ParameterRule* const rule = rule_of(parameter);
  const bool sums = rule != nullptr && rule->sums_gradient;
  return sums ? with_summed_gradient(parameter, group_) : parameter;
}

SplitOperators::Arguments SplitOperators::with_sums(const Arguments& arguments) const {
  Arguments values = arguments;
  for (c10::IValue& value : values) {
    if (value.isTensor() && value.toTensor().defined()) value = with_sum(value.toTensor());
  }
  return values;
}

}  // namespace tessera::tensor::detail
