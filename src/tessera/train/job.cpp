#include "tessera/train/job.h"

#include <ATen/Context.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/machine.h"
#include "tessera/checkpoint/load.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/format/checkpoint/checkpoint_folder.h"
#include "tessera/model/llama_units.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/grouped.h"
#include "tessera/optim/sgd.h"
#include "tessera/run/resume.h"
#include "tessera/run/run_folder.h"
#include "tessera/train/due.h"
#include "tessera/train/read_ahead.h"
#include "tessera/train/replica_check.h"
#include "tessera/train/run_setup.h"
#include "tessera/train/step_tracer.h"
#include "tessera/train/texts.h"
#include "tessera/train/train_model.h"

namespace tessera {
namespace {

std::unique_ptr<Optimizer> make_group(const OptimSection& optim, const Parameters& parameters,
                                      double weight_decay) {
  if (optim.kind == "sgd") {
    const SgdOptions options{.momentum = optim.momentum, .weight_decay = weight_decay};
    return std::make_unique<Sgd>(parameters, options);
  }
  const AdamWOptions options{
      .beta1 = optim.beta1, .beta2 = optim.beta2, .eps = optim.eps, .weight_decay = weight_decay};
  return std::make_unique<AdamW>(parameters, options);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimSection& optim, const Parameters& parameters) {
  if (optim.decay_norms) return make_group(optim, parameters, optim.weight_decay);
  const auto [matrices, others] = split_parameters(parameters, is_matrix);
  std::vector<std::unique_ptr<Optimizer>> groups;
  groups.push_back(make_group(optim, matrices, optim.weight_decay));
  groups.push_back(make_group(optim, others, 0));
  return std::make_unique<Grouped>(std::move(groups));
}

LearningRate learning_rate_of(const OptimSection& optim, int64_t steps) {
  const LearningRateKind kind = parse_learning_rate_kind(optim.schedule);
  const bool falls = kind != LearningRateKind::kConstant;
  const LearningRate rate{.kind = kind,
                          .peak = optim.lr,
                          .final = falls ? optim.final * optim.lr : 0,
                          .warmup = optim.warmup,
                          .steps = steps,
                          .decay = optim.decay};
  check(rate);
  return rate;
}

bool scales_loss(const TrainConfig& config) {
  return config.train.dtype == "fp16";
}

NonFinite non_finite_of(const OptimSection& optim) {
  if (optim.non_finite == "rollback") return NonFinite::kRollback;
  return optim.non_finite == "skip" ? NonFinite::kSkip : NonFinite::kStop;
}

TrainerOptions trainer_options(const TrainConfig& config) {
  return {.steps = config.train.steps,
          .learning_rate = learning_rate_of(config.optim, config.train.steps),
          .clip = config.optim.clip,
          .validate_every = config.train.validate_every,
          .sync_every = config.train.sync_every,
          .non_finite = non_finite_of(config.optim)};
}

// Operators that have no deterministic implementation throw.
void use_deterministic_operators() {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);  // Read by cuBLAS at its start.
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);  // No operator here reads such memory.
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
}

BatchOptions batch_options(const DataSection& data) {
  return {.batch = data.batch,
          .seq = data.seq,
          .shuffle = data.shuffle,
          .seed = static_cast<uint64_t>(data.seed)};
}

// A signal may reach ranks in different steps; all must stop after the same one.
bool any_of(bool mine, const Group& group) {
  return all_reduce(at::full({1}, mine, at::kInt), group, ReduceOp::kMax).wait().item<bool>();
}

std::string of_first_rank(const std::string& text, const Group& group) {
  const Bytes bytes = broadcast_bytes({text.begin(), text.end()}, GlobalRank{0}, group);
  return {bytes.begin(), bytes.end()};
}

void check_documents(const DataSection& data, const LlamaConfig& shape) {
  TSR_CHECK(!data.documents || data.document_end < shape.vocab_size,
            "data.document_end=", data.document_end, " is outside the vocabulary of ",
            shape.vocab_size, "; choose a token of it");
}

std::optional<int64_t> document_end(const DataSection& data) {
  return data.documents ? std::optional(data.document_end) : std::nullopt;
}

// Without validation, no data is held out.
std::pair<TokenBatches, std::optional<TokenBatches>> make_batches(const TrainConfig& config) {
  const TokenData data = open_data(config);
  BatchOptions options = batch_options(config.data);
  const std::optional<int64_t> end = document_end(config.data);
  if (config.train.validate_every == 0) {
    return {TokenBatches(Batches(data, options), end), std::nullopt};
  }
  const TokenData::Split split = data.split(config.data.validation_share);
  TokenBatches batches(Batches(split.train, options, "training part of the data"), end);
  options.shuffle = false;
  return {std::move(batches),
          TokenBatches(Batches(split.validation, options, "validation part of the data"), end)};
}

// The checkpoint to continue from, or to take weights from; "" for none. Rank 0 chooses.
std::string checkpoint_of(const TrainConfig& config, bool resumes, const Group& group) {
  std::string path;
  if (group.rank() == GroupRank{0}) {
    if (resumes)
      path = find_checkpoint(config.run.dir);
    else if (!config.train.init_from.empty())
      path = find_checkpoint(config.train.init_from);
  }
  return of_first_rank(path, group);
}

// Whether the run continues an earlier one.
bool check_resume(const TrainConfig& config) {
  if (!config.run.resume) return false;
  const auto before = stored_config(config.run.dir);
  if (!before) return false;
  if (!config.run.resume_anyway) check_same_curve(*before, config);
  const CheckpointFolder all(std::filesystem::path(config.run.dir) / kCheckpointsFolder);
  const int64_t step = all.newest().value_or(0);
  // An attempt may fail after its last step.
  const bool ends =
      step == config.train.steps && read_launch_info(process_environment()).restart_count > 0;
  TSR_CHECK(step < config.train.steps || ends, "the run has done ", step, " steps of ",
            config.train.steps, "; give a larger --steps to continue it");
  return true;
}

const std::string& state_of(const Checkpoint& checkpoint, const std::string& key) {
  const auto at = checkpoint.index().state.find(key);
  if (at != checkpoint.index().state.end()) return at->second;
  throw DataError(concat(checkpoint.folder(), " has no state '", key, "'; was it saved by tessera ",
                         "train? Give --init-from to start from its weights"));
}

double number_of(const Checkpoint& checkpoint, const std::string& key) {
  return std::strtod(state_of(checkpoint, key).c_str(), nullptr);
}

void check_samples(const Checkpoint& checkpoint, int64_t samples) {
  const std::string& before = state_of(checkpoint, "data_samples");
  TSR_CHECK(before == std::to_string(samples), "the data had ", before,
            " samples when the run was saved and has ", samples,
            " now; the run would read other batches: restore the data, or give --resume-anyway");
}

// A checkpoint of a run without averages has none: they begin with its weights.
void restore_average(const Checkpoint& checkpoint, WeightAverage& average) {
  const CheckpointEntries entries = average_entries(average);
  const bool saved = std::ranges::all_of(
      entries, [&](const CheckpointEntry& entry) { return checkpoint.contains(entry.name); });
  saved ? load(checkpoint, entries) : average.reset();
}

// What the trainer keeps beside the weights and its own counters.
void load_training_state(TrainJob& job, const Checkpoint& checkpoint) {
  const Engine& engine = job.model.engine;
  load_optimizer(checkpoint, *job.optimizer, engine.parameters());
  load(checkpoint, entries_of(engine.buffers()));
  if (job.average) restore_average(checkpoint, *job.average);
}

// The state of a run without its weights.
void restore(TrainJob& job, const Checkpoint& checkpoint) {
  const int64_t step = checkpoint.index().step;
  if (!job.config.run.resume_anyway) check_samples(checkpoint, job.batches.batches().samples());
  load_training_state(job, checkpoint);
  // A run that was not in float16 has no scale to restore.
  if (job.scaler && checkpoint.index().state.contains("loss_scale")) {
    job.scaler->restore(
        {.scale = number_of(checkpoint, "loss_scale"),
         .growth_tracker = static_cast<int64_t>(number_of(checkpoint, "growth_tracker"))});
  }
  if (const auto spikes = checkpoint.index().state.find("spikes");
      spikes != checkpoint.index().state.end()) {
    job.spikes.restore(spikes->second);
  }
  job.options.first_step = step;
}

// Loads the newest checkpoint into the model, which keeps its step; nothing if there is none.
std::optional<int64_t> roll_back(TrainJob& job) {
  const Group& group = job.world.group();
  std::string path;
  if (group.rank() == GroupRank{0}) {
    const CheckpointFolder folder(std::filesystem::path(job.config.run.dir) / kCheckpointsFolder);
    if (const auto step = folder.newest()) path = folder.path_of(*step);
  }
  path = of_first_rank(path, group);
  if (path.empty()) return std::nullopt;
  std::optional<Checkpoint> checkpoint;
  check_together(job.world, concat("the checkpoint ", path, " can be read"),
                 [&] { checkpoint.emplace(path); });
  verify(*checkpoint, group);
  const Parameters& parameters = job.model.engine.parameters();
  load(*checkpoint, entries_of(parameters));
  // Shards that were gathered before are old.
  for (const Parameter& parameter : parameters) {
    parameter.tensor.unsafeGetTensorImpl()->bump_version();
  }
  load_training_state(job, *checkpoint);
  return checkpoint->index().step;
}

ReplicaCheck replica_check(const TrainJob& job) {
  ReplicaTensors tensors = replica_tensors(job.model.engine.parameters(), *job.optimizer);
  if (job.average) {
    for (const Parameter& average : job.average->averages()) {
      tensors.push_back({concat(average.name, ".ema"), average.tensor, average.place.part});
    }
  }
  return {job.model.engine.plan(), job.world.group(), std::move(tensors)};
}

void check_paths(const DataSection& data) {
  for (const std::string& path : data.paths) {
    std::error_code error;  // Other errors are those of the reader, which says more.
    const auto type = std::filesystem::status(path, error).type();
    if (type == std::filesystem::file_type::not_found) {
      throw DataError(concat("cannot open ", path, ": No such file or directory; --data takes ",
                             "text files, folders of them, or token files"));
    }
  }
}

}  // namespace

CheckpointEntries average_entries(const WeightAverage& average) {
  CheckpointEntries entries;
  for (const Parameter& one : average.averages()) {
    entries.emplace_back(state_name(one.name, "ema"), one.tensor, one.place.part);
  }
  return entries;
}

void check_job(const TrainConfig& config) {
  check_paths(config.data);
  const bool resumes = check_resume(config);
  if (!resumes && !config.train.init_from.empty()) find_checkpoint(config.train.init_from);
  check_device(config.train);
  trainer_options(config);
  const LlamaConfig shape = shape_of(config.model);
  check_shape(config, shape);
  check_documents(config.data, shape);
  check_texts(config, shape);
  check_memory(config, shape, machine_memory());
  stage_units(llama_model(shape), schedule_of(config).num_stages());
}

TrainJob make_job(TrainConfig config, std::optional<TrainConfig> wanted) {
  const TrainerOptions options = trainer_options(config);
  set_threads(config);
  if (config.train.deterministic) use_deterministic_operators();
  World world = connect_ranks(config);
  config.run.dir = of_first_rank(config.run.dir, world.group());
  if (wanted) wanted->run.dir = config.run.dir;
  auto [batches, validation] = make_batches(config);
  // Rank 0 decides: a shared file system may show other hosts a checkpoint later.
  const bool resumes = of_first_rank(check_resume(config) ? "yes" : "", world.group()) == "yes";
  const std::string path = checkpoint_of(config, resumes, world.group());
  std::optional<Checkpoint> checkpoint;
  if (!path.empty()) {
    check_together(world, concat("the checkpoint ", path, " can be read"),
                   [&] { checkpoint.emplace(path); });
    verify(*checkpoint, world.group());
  }
  TrainModel model = make_model(config, world, checkpoint ? &*checkpoint : nullptr);
  std::unique_ptr<Optimizer> optimizer = make_optimizer(config.optim, model.engine.parameters());
  TrainJob job{std::move(world),
               std::move(batches),
               std::move(validation),
               std::move(model),
               std::move(optimizer),
               options,
               scales_loss(config) ? std::optional<GradScaler>(std::in_place) : std::nullopt,
               SpikeDetector({.factor = config.optim.spike, .window = config.optim.spike_window}),
               std::nullopt,
               config.train.validate_batches,
               config,
               wanted.value_or(config)};
  if (job.config.optim.ema_decay > 0) {
    job.average.emplace(job.model.engine.parameters(), *job.optimizer, job.config.optim.ema_decay);
  }
  if (resumes) restore(job, *checkpoint);
  return job;
}

int64_t train(TrainJob& job, TrainerHooks hooks, RunSaver::AfterSave after_save) {
  Engine& engine = job.model.engine;
  if (job.validation) {
    const int64_t count =
        std::min(job.validate_batches, job.validation->batches().batches_per_epoch());
    hooks.validate = [&, count] {
      std::optional<WeightAverage::InUse> averaged;
      if (job.config.train.validate_ema) averaged.emplace(*job.average);
      return mean_loss(engine, *job.validation, count);
    };
  }
  if (hooks.should_stop) {
    hooks.should_stop = [&, mine = hooks.should_stop] { return any_of(mine(), job.world.group()); };
  }
  TrainerOptions options = job.options;
  options.spikes = &job.spikes;
  if (job.scaler) options.scaler = &*job.scaler;
  if (job.average) options.average = &*job.average;
  RunSaver saver(job, std::move(after_save));
  const int64_t check_every = job.config.train.check_replicas;
  std::optional<ReplicaCheck> replicas;
  if (check_every > 0) replicas.emplace(replica_check(job));
  std::optional<StepTracer> tracer;
  if (!job.config.run.trace_steps.empty()) {
    const std::filesystem::path run(job.config.run.dir);
    tracer.emplace(parse_steps(job.config.run.trace_steps), run / RunFolder::kTrace,
                   job.world.group());
    hooks.before_step = [&, mine = hooks.before_step](int64_t step) {
      if (mine) mine(step);
      tracer->before_step(step);
    };
  }
  hooks.is_alone = [&, mine = hooks.is_alone](int64_t step) {
    return (mine && mine(step)) || saver.saves_after(step) || is_due(step, check_every) ||
           (tracer && tracer->traces(step));
  };
  hooks.roll_back = [&] {
    saver.wait();
    return roll_back(job);
  };
  hooks.after_step = [&, mine = hooks.after_step](const StepMetrics& metrics) {
    if (tracer) tracer->after_step(metrics.step);
    if (mine) mine(metrics);
    if (is_due(metrics.step, check_every)) {
      replicas->check(concat("step ", metrics.step));
    }
    saver.after_step(metrics);
  };
  try {
    const ReadAhead batches(job.batches);
    const int64_t steps = train(options, engine, batches, *job.optimizer, hooks);
    saver.finish(steps);
    return steps;
  } catch (const NumericError&) {  // On all ranks.
    saver.wait();
    throw;
  }
}

}  // namespace tessera
