#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"
#include "tessera/layer/router_balance.h"
#include "tessera/tensor/parameter.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// The smallest part of a model for strategies: pipelines split between units.
struct Unit {
  std::string name;            // "model.layers.3"
  Parameters parameters = {};  // Tensors that `forward` reads and training changes.
  Parameters buffers = {};     // Tensors that `forward` reads and no optimizer changes.
  /// Computes the unit's output. `x` is the output of the unit before, or the model's input.
  std::function<at::Tensor(const at::Tensor& x, const Pass& pass)> forward = {};
  /// Whether `forward` puts the expensive weight gradients into Pass::deferred.
  bool defers = false;
  /// Whether `forward` obeys Pass::tensor and Pass::context; a torch::nn module does not.
  bool splits = true;
  /// Whether the backward pass reads the parameters; that of an embedding does not.
  bool backward_reads = true;
};

/// Those of all units, in their order.
Parameters parameters_of(std::span<const Unit> units);

/// A parameter that two units share under one name.
struct TiedParameter {
  std::string name;    // Parameter::name: "model.embed_tokens.weight".
  int64_t first = 0;   // The unit that owns it.
  int64_t second = 0;  // The other unit.
};

/// The mean loss of some rows, a scalar, from the last unit's output: a function of output and
/// target, or of these and the pass.
class ModelLoss {
 public:
  /// The general form of a loss; a function without the pass becomes one that ignores it.
  using Function =
      std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target, const Pass&)>;

  ModelLoss() = default;
  template <class Loss>
    requires std::is_invocable_r_v<at::Tensor, Loss, at::Tensor, at::Tensor, Pass>
  ModelLoss(Loss loss) : function_(std::move(loss)) {}  // NOLINT(google-explicit-constructor)
  template <class Loss>
    requires std::is_invocable_r_v<at::Tensor, Loss, at::Tensor, at::Tensor>
  ModelLoss(Loss loss)  // NOLINT(google-explicit-constructor)
      : function_([loss = std::move(loss)](const at::Tensor& output, const at::Tensor& target,
                                           const Pass&) { return loss(output, target); }) {}

  at::Tensor operator()(const at::Tensor& output, const at::Tensor& target,
                        const Pass& pass = {}) const {
    return function_(output, target, pass);
  }

  /// The same loss of a model whose last unit returns it itself if Pass::targets is set, so that
  /// its output need not exist as a whole.
  ModelLoss in_last_unit() const {
    ModelLoss made = *this;
    made.is_in_last_unit_ = true;
    return made;
  }
  /// Whether in_last_unit() made it. Then the engine does not call it.
  bool is_in_last_unit() const { return is_in_last_unit_; }

 private:
  Function function_ = {};
  bool is_in_last_unit_ = false;
};

/// A model as an ordered list of units and a loss. Each rank builds the units that it runs.
///
///   Model model = model_of({module_unit("encoder", encoder), module_unit("head", head)}, loss);
struct Model {
  int64_t num_units = 0;  // Of the whole model, on all ranks together.
  /// Builds these units. A parameter tied within them is one tensor, listed by the first unit.
  std::function<std::vector<Unit>(Span units)> build = {};
  ModelLoss loss = {};  // Of each micro-batch, on the rank of the last unit.
  /// The target of positions that have no loss, if there may be some. `loss` counts them in its
  /// mean, as zeros; the engine divides by the number of the others in the whole batch.
  std::optional<int64_t> ignored_target = std::nullopt;
  /// The units to divide evenly between stages. Units before them belong to the first stage, units
  /// after them to the last.
  Span layers = {};
  std::vector<TiedParameter> tied = {};  // Empty: units share no parameter.
  /// The experts of the model and their balancing losses; none in a dense model.
  std::optional<BalanceOptions> balance = std::nullopt;
  /// Sets the values of parameters; empty if they are built with values. This rank may only hold
  /// parts of them (Parameter::place).
  std::function<void(const Parameters&)> fill = {};
};

/// A model of existing units.
Model model_of(std::vector<Unit> units, ModelLoss loss);

/// The units of each stage. ConfigError if there are more stages than layers.
std::vector<Span> stage_units(const Model& model, int64_t num_stages);

}  // namespace tessera
