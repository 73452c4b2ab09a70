#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/parallel/tensor/parallel_styles.h"

namespace tessera::tensor::detail {

/// How the ranks share the work of a layer.
enum class LayerSplit {
  kOutputs,    // Colwise.
  kInputs,     // Rowwise.
  kPositions,  // Sequence.
  kNone,       // Every rank does all of it; only its input and output are converted.
};

/// A layer of the plan, and the layouts in which its users pass its input and get its output.
struct LayerRule {
  std::string name;
  LayerSplit split = LayerSplit::kNone;
  Placement input = Replicate{};
  Placement output = Replicate{};
  /// In which the operator computes, unless its inputs or outputs are split.
  Placement inside = Replicate{};
};

/// What becomes of a parameter, and of the operators that read it.
struct ParameterRule {
  std::string name;
  at::Tensor tensor;
  std::vector<int64_t> shape = {};           // Of the whole parameter.
  std::optional<size_t> dim = std::nullopt;  // Which is split.
  bool sums_gradient = false;                // Each rank uses it for a part of the work.
  /// The rules of operators that read it as their weight, by kind of layer.
  std::optional<LayerRule> linear = std::nullopt;
  std::optional<LayerRule> embedding = std::nullopt;
  std::optional<LayerRule> norm = std::nullopt;

  bool is_weight() const { return linear || embedding; }
  std::string text() const;
};

using ParameterRules = std::map<const c10::TensorImpl*, ParameterRule>;

/// The rules of a plan; parameters that it does not name have none. ConfigError if it does not fit
/// the module.
ParameterRules rules_of(const torch::nn::Module& module, const ParallelPlan& plan);

}  // namespace tessera::tensor::detail
