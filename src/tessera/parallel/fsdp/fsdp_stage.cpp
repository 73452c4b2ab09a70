#include "tessera/parallel/fsdp/fsdp_stage.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/groups.h"
#include "tessera/parallel/fsdp/internal/flat_shard.h"

namespace tessera {

using namespace fsdp::detail;

namespace {

namespace autograd = torch::autograd;

struct GradientHook : autograd::PostAccumulateGradHook {
  explicit GradientHook(std::function<void()> given) : callback(std::move(given)) {}
  void operator()(const autograd::Variable& /*parameter*/) override { callback(); }
  std::function<void()> callback;
};

/// The flat buffers of one unit.
struct ShardedUnit {
  std::vector<FlatShard> shards = {};
  std::vector<at::Tensor> trained = {};
  size_t num_ready = 0;  // Of `trained`, in the pass under way.
  bool is_reduced = false;
  bool is_shared = false;  // Another unit adds to its gradients: they are complete at the end.

  void start_gather() {
    for (FlatShard& shard : shards) shard.start_gather();
  }
  void finish_gather() {
    for (FlatShard& shard : shards) shard.finish_gather();
  }
  void free() {
    for (FlatShard& shard : shards) shard.free();
  }
  void expire() {
    for (FlatShard& shard : shards) shard.expire();
  }
  void start_reduce() {
    is_reduced = true;
    for (FlatShard& shard : shards) shard.start_reduce();
  }
  void advance_reduce() {
    for (FlatShard& shard : shards) shard.advance_reduce();
  }
  void finish_reduce() {
    for (FlatShard& shard : shards) shard.finish_reduce();
  }
};

}  // namespace

struct FsdpStage::State {
  std::vector<ShardedUnit> units = {};
  std::vector<std::vector<size_t>> needed = {};  // By unit: whose parameters it reads.
  FsdpOptions options;
  FsdpGroups groups;
  std::vector<std::string> description = {};  // One line per parameter.
  bool reduces = false;                  // The backward pass under way is the last of the step.
  std::optional<size_t> in_flight = {};  // The unit whose reduction was started last.

  bool is_per_unit() const { return options.when == ShardTime::kPerUnit; }
  bool keeps() const { return options.reshard == Reshard::kKeep; }

  void shard(size_t index, Unit& unit);
  void watch(size_t index);

  void before_forward(size_t index);
  void after_forward(size_t index, const at::Tensor& output);
  void before_backward(size_t index);
  void on_gradient(size_t index);
  void start_reduce(size_t index);
  void free(size_t index) {
    if (!keeps()) units[index].free();
  }

  void gather(size_t index) {
    for (const size_t unit : needed[index]) units[unit].finish_gather();
  }
  void prefetch(size_t index) {
    for (const size_t unit : needed[index]) units[unit].start_gather();
  }
};

void FsdpStage::State::shard(size_t index, Unit& unit) {
  for (const Parameter& parameter : unit.parameters) {
    description.push_back(concat("parameter '", parameter.name, "' of shape (",
                                 join(parameter.place.part.shape(), ","), ") and dtype ",
                                 parameter.tensor.scalar_type()));
  }
  std::map<std::string, std::vector<Parameter*>> by_buffer;
  for (Parameter& parameter : unit.parameters) {
    by_buffer[parameter.place.buffer].push_back(&parameter);
  }
  for (const auto& [buffer, local] : by_buffer) {
    std::vector<at::Tensor> full;
    for (const Parameter* const parameter : local) full.push_back(parameter->tensor);
    units[index].shards.emplace_back(std::move(full), local, groups, options);
    for (const at::Tensor& tensor : units[index].shards.back().trained()) {
      units[index].trained.push_back(tensor);
    }
  }
  std::erase_if(unit.parameters, [](const Parameter& p) { return p.place.part.numel() == 0; });
}

void FsdpStage::State::watch(size_t index) {
  const std::vector<at::Tensor>& tensors = units[index].trained;
  for (size_t i = 0; i < tensors.size(); ++i) {
    // The engine also calls it without a gradient, e.g. if that is deferred.
    const auto ready = [this, index, i] {
      if (units[index].trained[i].grad().defined()) on_gradient(index);
    };
    autograd::impl::set_post_acc_grad_hooks(tensors[i], std::make_unique<GradientHook>(ready));
  }
}

void FsdpStage::State::before_forward(size_t index) {
  gather(index);
  if (is_per_unit() && index + 1 < units.size()) prefetch(index + 1);
}

void FsdpStage::State::after_forward(size_t index, const at::Tensor& output) {
  if (output.requires_grad()) {
    output.register_hook([this, index](const at::Tensor& /*gradient*/) { before_backward(index); });
  }
  if (!is_per_unit()) return;
  const bool is_last = index + 1 == units.size();
  const bool stays =
      options.reshard == Reshard::kNever || (options.reshard == Reshard::kAllButLast && is_last);
  if (stays && output.requires_grad()) return;
  for (const size_t unit : needed[index]) free(unit);
}

void FsdpStage::State::before_backward(size_t index) {
  gather(index);
  if (is_per_unit() && index > 0) prefetch(index - 1);
}

void FsdpStage::State::on_gradient(size_t index) {
  ShardedUnit& unit = units[index];
  if (unit.is_shared) return;
  if (++unit.num_ready < unit.trained.size()) return;
  unit.num_ready = 0;
  if (!is_per_unit()) return;
  free(index);
  if (reduces) start_reduce(index);
}

// The sum over the replicas of one unit runs beside the backward pass of the next.
void FsdpStage::State::start_reduce(size_t index) {
  if (in_flight) units[*in_flight].advance_reduce();
  units[index].start_reduce();
  in_flight = index;
}

FsdpStage::FsdpStage(std::vector<Unit>& units, const FsdpGroups& groups, const FsdpOptions& options,
                     const SharedUnits& shared)
    : state_(std::make_shared<State>(State{.options = options, .groups = groups})) {
  state_->units.resize(units.size());
  for (size_t i = 0; i < units.size(); ++i) {
    state_->needed.push_back({i});
    for (const auto& [first, second] : shared) {
      if (second == i) state_->needed[i].push_back(first);
      if (first == i) state_->units[i].is_shared = true;
    }
    state_->shard(i, units[i]);
    state_->watch(i);
    units[i].forward = [state = state_, i, inner = units[i].forward](const at::Tensor& x,
                                                                     const Pass& pass) {
      state->before_forward(i);
      at::Tensor y = inner(x, pass);
      state->after_forward(i, y);
      return y;
    };
  }
}

// Hooks refer to the state, which may outlive this in the units' functions.
FsdpStage::~FsdpStage() {
  for (const ShardedUnit& unit : state_->units) {
    for (const at::Tensor& tensor : unit.trained) {
      autograd::impl::set_post_acc_grad_hooks(tensor, nullptr);
    }
  }
}

void FsdpStage::start() {
  for (const Group& group : {state_->groups.shard, state_->groups.replicate}) {
    check_same(group, "the sharded models differ on the ranks", state_->description);
  }
  for (ShardedUnit& unit : state_->units) {
    for (FlatShard& shard : unit.shards) shard.pack();
  }
}

void FsdpStage::begin_step() {
  state_->reduces = false;
  state_->in_flight.reset();
  for (ShardedUnit& unit : state_->units) {
    unit.num_ready = 0;
    unit.is_reduced = false;
  }
}

void FsdpStage::unshard() {
  if (state_->is_per_unit()) return;
  for (ShardedUnit& unit : state_->units) unit.start_gather();
}

void FsdpStage::reshard() {
  if (state_->is_per_unit()) return;
  for (size_t i = 0; i < state_->units.size(); ++i) state_->free(i);
}

void FsdpStage::last_backward() {
  state_->reduces = true;
}

void FsdpStage::reduce_grad() {
  if (state_->is_per_unit()) return;
  for (size_t i = state_->units.size(); i-- > 0;) state_->start_reduce(i);
}

// Shared units, those without trained parameters, and those that the loss did not reach come last.
void FsdpStage::finish_step() {
  for (size_t i = 0; i < state_->units.size(); ++i) {
    if (!state_->units[i].is_reduced) state_->start_reduce(i);
  }
  for (size_t i = 0; i < state_->units.size(); ++i) {
    state_->units[i].finish_reduce();
    state_->free(i);
    state_->units[i].expire();  // The optimizer changes the shards now.
  }
}

}  // namespace tessera
