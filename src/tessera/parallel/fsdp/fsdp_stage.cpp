#include "tessera/parallel/fsdp/fsdp_stage.h"

#include "tessera/base/check.h"
#include "tessera/parallel/fsdp/internal/sharded_units.h"

namespace tessera {

using namespace fsdp::detail;

struct FsdpStage::State {
  State(const FsdpGroups& groups, const FsdpGroups& experts, const FsdpOptions& options)
      : units(groups, experts, options) {}

  ShardedUnits units;
  std::vector<bool> backward_reads = {};  // By unit.
  bool in_step = false;

  at::Tensor forward(size_t index, const Unit& unit, const at::Tensor& x, const Pass& pass);
  void before_backward(size_t index);
  void check_in_step() const {
    if (!in_step) throw StateError("the step of a sharded stage has not begun; call begin_step()");
  }
};

at::Tensor FsdpStage::State::forward(size_t index, const Unit& unit, const at::Tensor& x,
                                     const Pass& pass) {
  units.gather(index);
  if (units.is_per_unit() && index + 1 < units.size()) units.prefetch(index + 1);
  const UnitSpan span = units[index].log.begin(UnitAction::kForward);
  at::Tensor y = unit.forward(x, pass);
  span.end();
  if (y.requires_grad()) {
    y.register_hook([this, index](const at::Tensor& /*gradient*/) { before_backward(index); });
  }
  if (units.is_per_unit()) {
    units.after_forward(index,
                        {.has_backward = y.requires_grad(), .is_last = index + 1 == units.size()});
  }
  return y;
}

void FsdpStage::State::before_backward(size_t index) {
  units.before_backward(index, backward_reads[index]);
  // Others are freed when their gradients are complete; this one has none.
  const size_t done = index + 1;
  if (units.is_per_unit() && done < units.size() && units[done].trained.empty()) units.free(done);
  if (units.is_per_unit() && index > 0 && backward_reads[index - 1]) units.prefetch(index - 1);
}

FsdpStage::FsdpStage(std::vector<Unit>& units, const FsdpGroups& groups, const FsdpGroups& experts,
                     const FsdpOptions& options, const SharedUnits& shared)
    : state_(std::make_shared<State>(groups, experts, options)) {
  TSR_CHECK(options.when == ShardTime::kPerUnit || !options.reduce_each,
            "a pipeline reduces gradients once per step, so reduction per slice is not available; ",
            "leave it out, or use one pipeline stage");
  for (size_t i = 0; i < units.size(); ++i) {
    state_->units.add(units[i].name, units[i].parameters);
    state_->backward_reads.push_back(units[i].backward_reads);
    units[i].forward = [state = state_, i, inner = units[i]](const at::Tensor& x,
                                                             const Pass& pass) {
      return state->forward(i, inner, x, pass);
    };
  }
  for (const auto& [first, second] : shared) state_->units.share(first, second);
}

FsdpStage::~FsdpStage() = default;

void FsdpStage::start() {
  state_->units.start();
}

void FsdpStage::record(const UnitRecorder& recorder) {
  state_->units.record(recorder);
}

void FsdpStage::begin_step() {
  state_->in_step = true;
  state_->units.begin();
}

void FsdpStage::unshard() {
  if (state_->units.is_per_unit()) return;
  for (size_t i = 0; i < state_->units.size(); ++i) state_->units.prefetch(i);
}

void FsdpStage::reshard() {
  if (state_->units.is_per_unit()) return;
  for (size_t i = 0; i < state_->units.size(); ++i) state_->units.free(i);
}

void FsdpStage::last_backward() {
  state_->check_in_step();
  state_->units.begin_backward(true);
}

void FsdpStage::reduce_grad() {
  state_->check_in_step();
  if (state_->units.is_per_unit()) return;
  for (size_t i = state_->units.size(); i-- > 0;) state_->units.start_reduce(i);
}

void FsdpStage::finish_step() {
  state_->check_in_step();
  state_->in_step = false;
  state_->units.finish(/*reduces=*/true);
}

}  // namespace tessera
