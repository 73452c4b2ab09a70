#include <ATen/ops/stack.h>

#include "tessera/base/check.h"
#include "tessera/comm/groups.h"
#include "tessera/dialect/olmo/parallel.h"
#include "tessera/schedule/search.h"

namespace tessera::olmo {
namespace {

Schedule schedule_of(PipelineScheduleType name, int64_t pp, size_t num_stages, size_t num_parts,
                     std::optional<int64_t> num_microbatches) {
  const ScheduleKind kind = parse_schedule_kind(to_string(name));
  TSR_CHECK(num_stages > 0, "this rank has no stage; every rank of a pipeline has one");
  TSR_CHECK(num_parts <= 1 || !is_single_stage(name), name, " has one model part on a rank, not ",
            num_parts, "; choose Interleaved1F1B for more");
  return make_schedule({.kind = kind,
                        .pp = pp,
                        .microbatches = num_microbatches.value_or(pp),
                        .stages_per_rank = static_cast<int64_t>(num_stages)},
                       {});
}

}  // namespace

PipelineSchedule::PipelineSchedule(ModelParts model_parts, std::vector<Stage> stages,
                                   const DeviceMesh& pp_mesh, PipelineScheduleType schedule_name,
                                   PipelineLoss loss_fn, std::optional<int64_t> num_microbatches)
    : model_parts_(std::move(model_parts)),
      pp_mesh_(pp_mesh),
      schedule_name_(schedule_name),
      loss_fn_(std::move(loss_fn)) {
  std::optional<Schedule> schedule;
  check_together(pp_mesh.get_group(), "that the schedule can be made", [&] {
    schedule = schedule_of(schedule_name, pp_mesh.size(), stages.size(), model_parts_.size(),
                           num_microbatches);
  });
  pipeline_.emplace(std::move(stages), *schedule, pp_mesh.get_group(),
                    PipelineOptions{.loss = loss_fn_});
}

std::pair<Tensors, at::Tensor> PipelineSchedule::step(const Tensors& args, const at::Tensor& target,
                                                      const Keywords& kwargs) {
  const PipelineBatch batch{.inputs = args,
                            .target = loss_fn_ ? target : at::Tensor(),
                            .keywords = kwargs,
                            .outputs = true};
  const PipelineResult result = loss_fn_ ? pipeline_->step(batch) : pipeline_->evaluate(batch);
  return {result.outputs, result.losses.empty() ? at::Tensor() : at::stack(result.losses)};
}

}  // namespace tessera::olmo
