// All of N-D parallelism on one screen: each strategy is a folder in parallel/ and a line in
// compose().
#include "tessera/train/compose.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/groups.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/parallel/context/context_parallel.h"
#include "tessera/parallel/ddp/ddp_stage.h"
#include "tessera/parallel/fsdp/fsdp_stage.h"
#include "tessera/parallel/tensor/tensor_units.h"
#include "tessera/schedule/choose.h"
#include "tessera/tensor/copied_to.h"
#include "tessera/tensor/place_together.h"
#include "tessera/train/model_stage.h"
#include "tessera/train/train_balance.h"

namespace tessera {
namespace {

void check_batch(const RealizedPlan& plan, int64_t batch) {
  const int64_t sharers = plan.group("batch").size();
  TSR_CHECK(batch >= sharers, "a batch of ", batch, " rows is too small for ", sharers,
            " replicas; choose at least 1 row per replica");
}

// A unit that computes whole layers and sequences would train something else.
void check_splits(std::span<const ModelStage> stages, const RealizedPlan& plan) {
  const int64_t tp = plan.group("tp").size();
  const int64_t cp = plan.group("cp").size();
  if (tp * cp == 1) return;
  for (const ModelStage& stage : stages) {
    const auto whole = std::ranges::find(stage.units, false, &Unit::splits);
    TSR_CHECK(whole == stage.units.end(), "unit '", whole->name, "' is a module that ",
              tp > 1 ? concat("tp ", tp) : concat("cp ", cp), " cannot split; ",
              tp > 1 ? "split its layers by parallelize_module() instead, or set tp to 1"
                     : "set cp to 1, or write a unit whose attention obeys Pass::context");
  }
}

// Whether the stage has I and W.
bool splits_backward(const Schedule& schedule, int64_t stage) {
  const auto is_input_gradient = [&](const Task& task) {
    return task.type == ActionType::kInputGrad && task.stage == stage;
  };
  return std::ranges::any_of(schedule.row(schedule.rank_of(stage)), [&](const Action& action) {
    return std::ranges::any_of(action.tasks(), is_input_gradient);
  });
}

// A recomputed unit adds the weight gradients of its second run. Without Unit::defers it would run
// again, and add them, both in I and in W. The first stage does all of it in W.
void check_recompute(std::span<const ModelStage> stages, const ComposeOptions& options) {
  if (options.recompute == Recompute::kNone) return;
  for (const ModelStage& stage : stages) {
    if (stage.index == 0 || !splits_backward(options.schedule, stage.index)) continue;
    const auto unit = std::ranges::find(stage.units, false, &Unit::defers);
    TSR_CHECK(unit == stage.units.end(), "unit '", unit->name, "' computes all gradients at once, ",
              "so it cannot be recomputed in schedule '", options.schedule.name(),
              "', which computes weight gradients later; choose a schedule without I and W, e.g. "
              "1f1b, or leave recompute out");
  }
}

// The steps of these cannot be recorded: other ranks, or the host, decide something in them.
void check_graphs(const Model& model, const RealizedPlan& plan, const ComposeOptions& options) {
  if (!options.graphs) return;
  const int64_t ranks = plan.plan().world();
  TSR_CHECK(ranks == 1, "CUDA graphs are for one rank, but there are ", ranks, "; leave them out");
  const auto stages = options.schedule.num_stages();
  TSR_CHECK(stages == 1, "CUDA graphs are for one stage, but the schedule has ", stages,
            "; leave them out");
  TSR_CHECK(!model.balance, "CUDA graphs cannot record routers of experts; leave them out");
  TSR_CHECK(options.recompute == Recompute::kNone,
            "CUDA graphs cannot record recompute, which sets the state of random numbers; leave "
            "one of them out");
}

// The units that this rank runs.
std::vector<ModelStage> make_stages(const Model& model, const RealizedPlan& plan,
                                    const Schedule& schedule) {
  const Group& pp = plan.group("pp");
  std::vector<ModelStage> stages = build_stages(model, schedule, pp.rank());
  place_parameters(stages, model, plan.plan(), pp.global_rank(pp.rank()));
  return stages;
}

// Layers are joined where there are kernels, and a CPU has none.
bool is_for_kernels(const Parameters& parameters) {
  return std::ranges::any_of(parameters, [](const Parameter& p) { return has_kernels(p.tensor); });
}

void fill(const std::vector<ModelStage>& stages, const Model& model) {
  if (!model.fill) return;
  for (const ModelStage& stage : stages) {
    model.fill(stage.parameters());
    for (const Unit& unit : stage.units) {
      if (is_for_kernels(unit.parameters)) place_together(unit.parameters);
    }
  }
}

double share_of(const RealizedPlan& plan, int64_t batch) {
  const Span rows = rows_of(batch, plan.group("batch"));
  return static_cast<double>(rows.size()) / static_cast<double>(batch * plan.group("cp").size());
}

// The experts of a rank see tokens of several ranks, so the shares of the batch are in the
// gradients already.
std::shared_ptr<const ExpertParallel> expert_parallel(const RealizedPlan& plan,
                                                      const ComposeOptions& options) {
  if (plan.group("grad").size() * plan.group("tp").size() == 1) return nullptr;
  const auto copies = static_cast<double>(plan.group("expert_grad").size());
  return std::make_shared<const ExpertParallel>(
      ExpertParallel{plan.group("ep"), plan.group("etp"), share_of(plan, options.batch) * copies,
                     options.dispatch});
}

double share_of(const RealizedPlan& plan, const std::string& group, int64_t batch) {
  return group == "expert_grad" ? 1 / static_cast<double>(plan.group(group).size())
                                : share_of(plan, batch);
}

Parameters buffers_of(std::span<const ModelStage> stages) {
  Parameters all;
  for (const ModelStage& stage : stages) {
    for (const Unit& unit : stage.units) {
      all.insert(all.end(), unit.buffers.begin(), unit.buffers.end());
    }
  }
  return all;
}

// The parameters, by the group that reduces their gradients.
std::vector<ReducedTensors> reduced_tensors(const ModelStage& stage, const RealizedPlan& plan,
                                            int64_t batch) {
  std::map<std::string, DdpTensors> by_group;
  for (const Parameter& parameter : stage.parameters()) {
    by_group[parameter.place.grad_group].parameters.push_back(parameter);
  }
  for (const Parameter& buffer : buffers_of({&stage, 1})) {
    by_group["grad"].buffers.push_back(buffer);
  }
  std::vector<ReducedTensors> parts;
  for (auto& [group, tensors] : by_group) {
    parts.push_back({std::move(tensors), plan.group(group), share_of(plan, group, batch)});
  }
  return parts;
}

std::shared_ptr<DataParallel> replicate(const ModelStage& stage, const RealizedPlan& plan,
                                        const ComposeOptions& options) {
  const ReduceTime when =
      options.schedule.pp() == 1 ? ReduceTime::kInBackward : ReduceTime::kAtAction;
  return std::make_shared<DdpStage>(reduced_tensors(stage, plan, options.batch), when, options.ddp);
}

// Units of the stage that share a parameter.
SharedUnits shared_units(const ModelStage& stage, const Model& model) {
  SharedUnits shared;
  for (const TiedParameter& tied : model.tied) {
    const auto first = static_cast<size_t>(tied.first - stage.first_unit);
    const auto second = static_cast<size_t>(tied.second - stage.first_unit);
    if (first < stage.units.size() && second < stage.units.size()) {
      shared.emplace_back(first, second);
    }
  }
  return shared;
}

std::shared_ptr<DataParallel> shard(ModelStage& stage, const Model& model, const RealizedPlan& plan,
                                    const ComposeOptions& options) {
  FsdpOptions fsdp = options.fsdp;
  fsdp.when = options.schedule.pp() == 1 ? ShardTime::kPerUnit : ShardTime::kAtActions;
  fsdp.share = share_of(plan, options.batch);
  return std::make_shared<FsdpStage>(
      stage.units, FsdpGroups{plan.group("dp_shard_cp"), plan.group("dp_replicate")},
      FsdpGroups{plan.group("expert_shard"), plan.group("expert_replicate")}, fsdp,
      shared_units(stage, model));
}

std::shared_ptr<DataParallel> data_parallel_of(ModelStage& stage, const Model& model,
                                               const RealizedPlan& plan,
                                               const ComposeOptions& options) {
  const bool shards = plan.group("dp_shard_cp").size() > 1;
  return shards ? shard(stage, model, plan, options) : replicate(stage, plan, options);
}

ContextGroups context_groups(const RealizedPlan& plan, const ContextParallelOptions& options) {
  ContextGroups groups{.cp = plan.group("cp")};
  if (options.sizes.empty()) return groups;
  groups.all_to_all = plan.group("cp_all_to_all");
  groups.ring = plan.group("cp_ring");
  return groups;
}

/// What splits the work within units.
struct Splits {
  std::shared_ptr<const TensorParallel> tensor;
  std::shared_ptr<const ContextParallel> context;
  std::shared_ptr<const ExpertParallel> experts;  // Null if no other rank helps.
  std::shared_ptr<TrainBalance> balance;
  at::Device device;
  bool adds_gradients;  // Pass::adds_gradients.

  /// Those that this rank has between layers.
  at::Tensor own_positions(const at::Tensor& all) const {
    const Group& tp = tensor->group;
    return tensor->sequence ? all.chunk(tp.size(), 1)[static_cast<size_t>(tp.rank().value)] : all;
  }

  /// The arguments of the units for one microbatch.
  Pass pass(const StagePass& given) const {
    Pass made{.deferred = given.deferred,
              .adds_gradients = adds_gradients,
              .tensor = tensor.get(),
              .context = context.get(),
              .experts = experts.get(),
              .balance = balance->routers(),
              .capacity = balance->capacity(),
              .only_routes = balance->is_counting()};
    const auto documents = given.keywords->find(kDocuments);
    if (documents != given.keywords->end()) {
      made.documents =
          std::make_shared<const PackedRows>(packed_rows(std::get<at::Tensor>(documents->second)));
    }
    const auto places = given.keywords->find(kPlaces);
    if (places != given.keywords->end()) {
      made.places = copied_to(device, own_positions(std::get<at::Tensor>(places->second)));
    }
    const auto length = given.keywords->find(kLength);
    if (length == given.keywords->end()) return made;
    made.positions = context->positions(std::get<int64_t>(length->second), made.documents.get());
    return made;
  }
};

Stage pipeline_stage(const ModelStage& stage, const std::shared_ptr<DataParallel>& data_parallel,
                     const Splits& splits, const ModelLoss& loss) {
  const auto forward = [units = stage.units, splits, in_last_unit = loss.is_in_last_unit()](
                           const Tensors& inputs, const StagePass& given) {
    Pass pass = splits.pass(given);
    at::Tensor x = inputs.at(0);
    for (const Unit& unit : units) {
      pass.unit = unit.name;
      if (in_last_unit && &unit == &units.back()) pass.targets = given.target;
      x = unit.forward(x, pass);
    }
    return Tensors{x};
  };
  return {.index = stage.index,
          .forward = forward,
          .defers = std::ranges::all_of(stage.units, &Unit::defers),
          .hooks = {.unshard = [data_parallel] { data_parallel->unshard(); },
                    .reshard = [data_parallel] { data_parallel->reshard(); },
                    .reduce_grad = [data_parallel] { data_parallel->reduce_grad(); },
                    .last_backward = [data_parallel] { data_parallel->last_backward(); }}};
}

// The same stages on the same ranks, for a batch in one piece.
Schedule in_one_piece(const Schedule& schedule) {
  std::vector<ScheduleRow> rows(static_cast<size_t>(schedule.pp()));
  const auto stages = static_cast<int32_t>(schedule.num_stages());
  const auto row = [&](int32_t stage) -> ScheduleRow& {
    return rows[static_cast<size_t>(schedule.rank_of(stage).value)];
  };
  for (int32_t i = 0; i < stages; ++i) row(i).emplace_back(ActionType::kForward, i, 0);
  for (int32_t i = stages - 1; i >= 0; --i) row(i).emplace_back(ActionType::kBackward, i, 0);
  return {"in one piece",
          {.pp = schedule.pp(), .num_stages = schedule.num_stages(), .microbatches = 1},
          std::move(rows)};
}

PipelineLoss pipeline_loss(const ModelLoss& loss, const Splits& splits) {
  return [loss, splits](const Tensors& outputs, const at::Tensor& target) {
    splits.balance->before_backward();
    return loss.is_in_last_unit() ? outputs.at(0)
                                  : loss(outputs.at(0), target, {.tensor = splits.tensor.get()});
  };
}

}  // namespace

Engine compose(const Model& model, const RealizedPlan& plan, const ComposeOptions& options) {
  check_batch(plan, options.batch);
  check_graphs(model, plan, options);
  std::vector<ModelStage> stages = make_stages(model, plan, options.schedule);
  check_together(plan.group("pp"), "the rules for units of the model", [&] {
    check_splits(stages, plan);
    check_recompute(stages, options);
  });
  const auto tensor = std::make_shared<const TensorParallel>(
      TensorParallel{plan.group("tp"), options.sequence, options.tensor_async});
  const auto context =
      std::make_shared<ContextParallel>(context_groups(plan, options.context), options.context);
  const auto balance = std::make_shared<TrainBalance>(model.balance, options.capacity, plan,
                                                      options.sequence, options.schedule);
  const Splits splits{.tensor = tensor,
                      .context = context,
                      .experts = expert_parallel(plan, options),
                      .balance = balance,
                      .device = options.device,
                      .adds_gradients = options.schedule.microbatches() > 1};
  std::vector<std::shared_ptr<DataParallel>> data_parallel;
  for (ModelStage& stage : stages) {
    cut_tensors(stage.units);
    for (Unit& unit : stage.units) unit = recompute(std::move(unit), options.recompute);
    data_parallel.push_back(data_parallel_of(stage, model, plan, options));
  }
  fill(stages, model);
  std::vector<Stage> made;
  for (size_t i = 0; i < stages.size(); ++i) {
    data_parallel[i]->start();
    made.push_back(pipeline_stage(stages[i], data_parallel[i], splits, model.loss));
  }
  TiedParameters tied(model, stages, options.schedule, plan);
  std::optional<Pipeline> whole_batch;
  if (balance->counts_whole_batches()) {
    whole_batch.emplace(made, in_one_piece(options.schedule), plan.group("pp"),
                        PipelineOptions{.device = options.device});
  }
  Pipeline pipeline(std::move(made), options.schedule, plan.group("pp"),
                    {.loss = pipeline_loss(model.loss, splits), .device = options.device});
  const Parameters parameters = trained_parameters(stages);
  std::optional<GraphedStep> graphed;
  if (options.graphs) graphed.emplace(options.device, parameters);
  return Engine({.plan = plan,
                 .parameters = parameters,
                 .buffers = buffers_of(stages),
                 .tensor = TensorGradients(parameters, *tensor),
                 .context = context,
                 .data_parallel = std::move(data_parallel),
                 .tied = std::move(tied),
                 .balance = balance,
                 .pipeline = std::move(pipeline),
                 .whole_batch = std::move(whole_batch),
                 .graphed = std::move(graphed),
                 .batch = options.batch,
                 .ignored_target = model.ignored_target,
                 .device = options.device});
}

Schedule one_rank(int64_t slices) {
  return choose_schedule({.word = "1f1b", .microbatches = slices});
}

}  // namespace tessera
