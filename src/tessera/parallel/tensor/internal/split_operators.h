#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/parallel/tensor/internal/layer_rules.h"
#include "tessera/parallel/tensor/internal/shared_inputs.h"

namespace tessera::tensor::detail {

/// Runs the operators that read parameters with rules: it converts their inputs and outputs.
class SplitOperators {
 public:
  SplitOperators(ParameterRules rules, Group group);

  /// An OperatorOverride::Function. ConfigError for an operator that cannot be split.
  bool run(const c10::OperatorHandle& op, std::vector<c10::IValue>& stack);

  const ParameterRules& rules() const& { return rules_; }
  const Group& group() const& { return group_; }

 private:
  using Arguments = std::vector<c10::IValue>;
  /// A linear layer.
  struct Product {
    at::Tensor x;
    const ParameterRule* weight = nullptr;
    at::Tensor bias = {};
  };

  std::optional<Arguments> results_of(const c10::OperatorHandle& op, const Arguments& arguments);

  /// Null if it has none.
  const ParameterRule* rule_of(const at::TensorBase& tensor) const;
  /// That of the weight of which this is the transpose.
  const ParameterRule* transposed_rule(const c10::IValue& value) const;
  std::optional<Product> product_in(const std::string& name, const Arguments& arguments) const;
  /// The first weight, or view of one.
  const ParameterRule* weight_in(const Arguments& arguments) const;
  const ParameterRule* norm_in(const Arguments& arguments) const;

  at::Tensor product(const Product& call);
  at::Tensor embedding(const ParameterRule& weight, const Arguments& arguments);
  at::Tensor own_embeddings(const ParameterRule& weight, const at::Tensor& tokens) const;
  at::Tensor norm(const c10::OperatorHandle& op, const ParameterRule& parameter,
                  const Arguments& arguments);

  at::Tensor in_layout(const at::Tensor& x, const Placement& from, const Placement& to,
                       int64_t width);
  at::Tensor in_output_layout(const at::Tensor& y, const LayerRule& layer, int64_t width) const;
  /// The parameter, with a gradient that the backward pass sums if its rule says so.
  at::Tensor with_sum(const at::Tensor& parameter) const;
  Arguments with_sums(const Arguments& arguments) const;

  ParameterRules rules_;
  Group group_;
  SharedInputs inputs_ = {};
};

}  // namespace tessera::tensor::detail
