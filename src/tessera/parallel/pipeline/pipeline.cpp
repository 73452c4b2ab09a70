#include "tessera/parallel/pipeline/pipeline.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/parallel/pipeline/internal/core.h"
#include "tessera/parallel/pipeline/internal/placing.h"
#include "tessera/parallel/pipeline/internal/step_run.h"

namespace tessera {

using namespace pipeline::detail;

namespace {

constexpr size_t kMostKnownShapes = 64;

std::set<Place> split_places(const ScheduleRow& row) {
  std::set<Place> places;
  for (const Action& action : row) {
    for (const Task& task : action.tasks()) {
      if (task.type == ActionType::kInputGrad) places.emplace(task.stage, task.microbatch);
    }
  }
  return places;
}

void check_can_train(const PipelineCore& core, const PipelineBatch& batch) {
  TSR_CHECK(at::GradMode::is_enabled(),
            "a step needs gradients, but they are disabled here; use evaluate(), or end the "
            "NoGradGuard first");
  if (!core.has(core.last_stage())) return;
  TSR_CHECK(core.options.loss,
            "this rank has the last stage but no loss function; set PipelineOptions::loss, or use "
            "evaluate()");
  TSR_CHECK(batch.target.defined(),
            "this rank has the last stage but no target; set PipelineBatch::target");
}

PipelineResult run(PipelineCore& core, const PipelineBatch& batch, StepKind kind) {
  ++core.calls;
  const AgreedStep agreed = agree_on_step(core.control, core.schedule.microbatches(), [&] {
    if (kind == StepKind::kTraining) check_can_train(core, batch);
    StepTerms terms = terms_of(batch, core.has(0), core.has(core.last_stage()));
    terms.call = core.calls;
    terms.kind = kind;
    terms.failed_before = core.failed;
    return terms;
  });
  core.failed = true;
  PipelineResult result = StepRun(core, batch, kind, agreed).run();
  core.failed = false;
  return result;
}

}  // namespace

PipelineCore::PipelineCore(std::vector<Stage> given, Schedule table, const Group& pp,
                           PipelineOptions chosen)
    : stages(std::move(given)),
      schedule(std::move(table)),
      options(std::move(chosen)),
      group(pp),
      control(on_lane(pp, Lane::kControl)),
      split(split_places(schedule.row(pp.rank()))),
      device(options.device.value_or(pp.device())),
      messages(on_lane(pp, Lane::kP2p), schedule),
      pool(device) {}

const Stage& PipelineCore::stage(int64_t index) const {
  return *std::ranges::find(stages, index, &Stage::index);
}

CrossingForms& PipelineCore::crossing(uint64_t shapes, bool failed_before) {
  if (failed_before || known.size() >= kMostKnownShapes) known.clear();
  return known[shapes];
}

Pipeline::Pipeline(std::vector<Stage> stages, const Schedule& schedule, const Group& group,
                   PipelineOptions options) {
  check_placing(stages, schedule, group);
  const Schedule table = executable(schedule);
  const at::Device device = options.device.value_or(group.device());
  if (group.backend() == Backend::kNccl && device.is_cuda()) check_for_nccl(table);
  check_together(group, "that every stage can be run", [&] { check_stages(stages, table); });
  core_ = std::make_unique<PipelineCore>(std::move(stages), table, group, std::move(options));
  core_->messages.connect();
  barrier(core_->control);
}

Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;
Pipeline::~Pipeline() = default;

PipelineCore& Pipeline::core() const {
  if (!core_) throw StateError("this Pipeline was moved from; use the one it was moved to");
  return *core_;
}

PipelineResult Pipeline::step(const PipelineBatch& batch) {
  return run(core(), batch, StepKind::kTraining);
}

PipelineResult Pipeline::evaluate(const PipelineBatch& batch) {
  const at::NoGradGuard no_grad;
  return run(core(), batch, StepKind::kEvaluation);
}

at::Tensor Pipeline::share_loss(const PipelineResult& result) const {
  const at::TensorOptions options = at::TensorOptions(at::kDouble).device(core().device);
  const at::Tensor loss = result.loss.defined() ? result.loss.to(options) : at::zeros({}, options);
  return broadcast(loss, core().schedule.rank_of(core().last_stage()), core().control).wait();
}

const Schedule& Pipeline::schedule() const {
  return core().schedule;
}
const Group& Pipeline::group() const {
  return core().group;
}
std::span<const Stage> Pipeline::stages() const {
  return core().stages;
}
bool Pipeline::has_first_stage() const {
  return core().has(0);
}
bool Pipeline::has_last_stage() const {
  return core().has(core().last_stage());
}

}  // namespace tessera
