#include "tessera/train/train_model.h"

#include <ATen/Context.h>

#include <utility>

#include "tessera/base/check.h"
#include "tessera/format/weight_files.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama_folder.h"
#include "tessera/schedule/choose.h"
#include "tessera/train/parallel_engine.h"
#include "tessera/train/single_engine.h"

namespace tessera {
namespace {

at::ScalarType dtype_of(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  return name == "fp64" ? at::kDouble : at::kFloat;
}

// `own` is where this process computes if it may use a GPU.
LlamaOptions llama_options(const TrainSection& train, at::Device own) {
  TSR_CHECK(train.device == "cpu" || !own.is_cpu(), "device '", train.device,
            "' was asked for, but this build or machine has none; use cpu");
  return {.dtype = dtype_of(train.dtype), .device = train.device == "cpu" ? at::kCPU : own};
}

// From files, or by initial values.
void fill(Llama& model, const TrainConfig& config) {
  if (config.model.path.empty()) {
    model.initialize(static_cast<uint64_t>(config.train.seed));
  } else {
    model.load(WeightFiles(config.model.path));
  }
}

void record_into(const std::string& run, int64_t every, ParallelEngine& engine) {
  engine.record(every, [run](const PipelineRecord& record) { write_pipeline_record(run, record); });
}

}  // namespace

LlamaConfig shape_of(const ModelSection& model) {
  return model.path.empty() ? model.shape : read_llama_config(model.path);
}

Schedule schedule_of(const TrainConfig& config) {
  const ParallelSection& parallel = config.parallel;
  if (parallel.pp == 1)
    return choose_schedule({.word = "gpipe", .microbatches = config.optim.accumulate});
  return choose_schedule(
      {.word = parallel.schedule, .pp = parallel.pp, .microbatches = parallel.microbatches});
}

TrainModel make_single_model(const TrainConfig& config) {
  const at::Device own = at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::kCPU;
  const auto model =
      std::make_shared<Llama>(shape_of(config.model), llama_options(config.train, own));
  fill(*model, config);
  const auto loss = [model](const at::Tensor& inputs, const at::Tensor& targets) {
    return token_loss(model->forward(inputs), targets);
  };
  const SingleEngineOptions options{.device = model->device(),
                                    .accumulate = config.optim.accumulate};
  return {.engine = std::make_unique<SingleEngine>(model->named_parameters(), loss, options),
          .parameter_count = model->parameter_count(),
          .save = [model](const std::string& folder) { model->save(folder); }};
}

TrainModel make_parallel_model(const TrainConfig& config, const WorldHandle& world) {
  const LlamaConfig shape = shape_of(config.model);
  const Schedule schedule = schedule_of(config);
  const DeviceMesh mesh(
      world, Layout::row_major({{"pp", config.parallel.pp}, {"dp", config.parallel.dp}}));
  LlamaStages stages = make_llama_stages(shape, llama_options(config.train, world.device()),
                                         schedule, mesh.get_local_rank("pp"));
  for (const auto& part : stages.parts) fill(*part, config);
  auto engine =
      std::make_unique<ParallelEngine>(std::move(stages), schedule, world, mesh, config.data.batch);
  record_into(config.run.dir, config.run.record_every, *engine);
  const auto save = [made = engine.get()](const std::string& folder) { made->save(folder); };
  return {
      .engine = std::move(engine), .parameter_count = Llama(shape).parameter_count(), .save = save};
}

}  // namespace tessera
