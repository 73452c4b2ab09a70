#include "tessera/train/run_saver.h"

#include <torch/version.h>

#include <filesystem>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/format/llama_config.h"
#include "tessera/model/weights.h"
#include "tessera/run/run_folder.h"
#include "tessera/train/due.h"
#include "tessera/train/job.h"

namespace tessera {
namespace {

CheckpointEntries entries_of(const TrainJob& job) {
  const Engine& engine = job.model.engine;
  CheckpointEntries entries = tessera::entries_of(engine.parameters());
  for (const CheckpointEntries& more : {tessera::entries_of(*job.optimizer, engine.parameters()),
                                        tessera::entries_of(engine.buffers())}) {
    entries.insert(entries.end(), more.begin(), more.end());
  }
  if (job.average) {
    for (CheckpointEntry& entry : average_entries(*job.average))
      entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

RunSaver::RunSaver(const TrainJob& job, AfterSave after_save)
    : job_(job),
      after_save_(std::move(after_save)),
      folder_(std::filesystem::path(job.config.run.dir) / RunFolder::kCheckpoints),
      saver_(job.world.group()),
      saved_(job.options.first_step == 0 ? -1 : job.options.first_step) {}

Metadata RunSaver::state_at(int64_t steps) const {
  Metadata state{
      {"config", to_toml(job_.wanted)},
      {"config.json", to_json(job_.model.shape, config_name(job_.model.dtype))},
      {"samples", std::to_string(steps * job_.config.data.batch)},
      {"data_samples", std::to_string(job_.batches.batches().samples())},
      {"layout", to_string(dims_of(job_.config.parallel))},
      {"dtype", job_.config.train.dtype},
      {"tessera", TESSERA_VERSION},
      {"libtorch", TORCH_VERSION},
  };
  if (job_.scaler) {
    state["loss_scale"] = exact_text(job_.scaler->state().scale);
    state["growth_tracker"] = std::to_string(job_.scaler->state().growth_tracker);
  }
  const std::string spikes = job_.spikes.state();
  if (!spikes.empty()) state["spikes"] = spikes;
  return state;
}

void RunSaver::after_step(const StepMetrics& metrics) {
  if (auto done = saver_.poll()) report(std::move(*done));
  // After a rollback there is nothing new, and rollbacks to a copy would not count as repeated.
  const bool continues = metrics.is_good() || metrics.skipped;
  if (continues && saves_after(metrics.step)) save(metrics.step + 1);
}

bool RunSaver::saves_after(int64_t step) const {
  return is_due(step, job_.config.run.save_every);
}

void RunSaver::finish(int64_t steps) {
  if (job_.config.run.save_every > 0 && saved_ != steps) save(steps);
  wait();
}

void RunSaver::wait() {
  if (auto done = saver_.finish()) report(std::move(*done));
}

void RunSaver::save(int64_t steps) {
  wait();  // At most one save is in flight.
  saved_ = steps;
  SaveRequest request{.path = folder_.path_of(steps), .step = steps, .state = state_at(steps)};
  if (job_.config.run.async_save) {
    saver_.begin(std::move(request), entries_of(job_));
  } else {
    report(saver_.save(std::move(request), entries_of(job_)));
  }
}

void RunSaver::report(SaveReport report) {
  const bool first = job_.world.rank() == GlobalRank{0};
  if (report.succeeded() && first) {
    try {
      folder_.set_latest(report.step);
      if (job_.config.run.keep_last > 0) folder_.keep_last(job_.config.run.keep_last);
    } catch (const Error& error) {
      report.error = concat("the checkpoint is complete, but ", error.what());
    }
  }
  if (after_save_) after_save_(report);
}

}  // namespace tessera
