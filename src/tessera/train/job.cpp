#include "tessera/train/job.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama_folder.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/sgd.h"
#include "tessera/train/single_engine.h"

namespace tessera {
namespace {

at::ScalarType dtype_of(const std::string& name) {
  if (name == "bf16") return at::kBFloat16;
  return name == "fp64" ? at::kDouble : at::kFloat;
}

at::Device device_of(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  TSR_CHECK(at::hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0, "device '", name,
            "' was asked for, but this build or machine has none; use cpu");
  return {at::kCUDA, 0};
}

LlamaConfig shape_of(const ModelSection& model) {
  return model.path.empty() ? model.shape : read_llama_config(model.path);
}

std::shared_ptr<Llama> make_model(const TrainConfig& config) {
  const LlamaOptions options{.dtype = dtype_of(config.train.dtype),
                             .device = device_of(config.train.device)};
  const std::string& folder = config.model.path;
  if (!folder.empty()) return std::make_shared<Llama>(load_llama(folder, options));
  auto model = std::make_shared<Llama>(config.model.shape, options);
  model->initialize(static_cast<uint64_t>(config.train.seed));
  return model;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimSection& optim,
                                          const NamedParameters& parameters) {
  if (optim.kind == "sgd") {
    const SgdOptions options{.momentum = optim.momentum, .weight_decay = optim.weight_decay};
    return std::make_unique<Sgd>(parameters, options);
  }
  const AdamWOptions options{.beta1 = optim.beta1,
                             .beta2 = optim.beta2,
                             .eps = optim.eps,
                             .weight_decay = optim.weight_decay};
  return std::make_unique<AdamW>(parameters, options);
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

TrainerOptions trainer_options(const TrainConfig& config) {
  return {.steps = config.train.steps,
          .learning_rate = learning_rate_of(config.optim, config.train.steps),
          .clip = config.optim.clip,
          .validate_every = config.train.validate_every};
}

BatchOptions batch_options(const DataSection& data) {
  return {.batch = data.batch,
          .seq = data.seq,
          .shuffle = data.shuffle,
          .seed = static_cast<uint64_t>(data.seed)};
}

TokenData open_data(const TrainConfig& config) {
  TokenData data({.paths = config.data.paths,
                  .weights = config.data.weights,
                  .kind = parse_token_kind(config.data.kind)});
  data.check_vocabulary(shape_of(config.model).vocab_size);
  return data;
}

std::unique_ptr<Engine> make_engine(const TrainConfig& config,
                                    const std::shared_ptr<Llama>& model) {
  const auto loss = [model](const at::Tensor& inputs, const at::Tensor& targets) {
    return token_loss(model->forward(inputs), targets);
  };
  const SingleEngineOptions options{.device = model->device(),
                                    .accumulate = config.optim.accumulate};
  return std::make_unique<SingleEngine>(model->named_parameters(), loss, options);
}

// Without validation nothing is held out.
std::pair<Batches, std::optional<Batches>> make_batches(const TrainConfig& config) {
  const TokenData data = open_data(config);
  BatchOptions options = batch_options(config.data);
  if (config.train.validate_every == 0) return {Batches(data, options), std::nullopt};
  const TokenData::Split split = data.split(config.data.validation_share);
  Batches batches(split.train, options);
  options.shuffle = false;
  return {std::move(batches), Batches(split.validation, options)};
}

}  // namespace

TrainJob make_job(const TrainConfig& config) {
  const TrainerOptions options = trainer_options(config);
  if (config.train.threads > 0) at::set_num_threads(static_cast<int>(config.train.threads));
  auto [batches, validation] = make_batches(config);
  std::shared_ptr<Llama> model = make_model(config);
  std::unique_ptr<Engine> engine = make_engine(config, model);
  std::unique_ptr<Optimizer> optimizer = make_optimizer(config.optim, engine->parameters());
  return {std::move(model),
          std::move(batches),
          std::move(validation),
          std::move(engine),
          std::move(optimizer),
          options,
          config.train.validate_batches};
}

int64_t train(TrainJob& job, TrainerHooks hooks) {
  if (job.validation) {
    const int64_t count = std::min(job.validate_batches, job.validation->batches_per_epoch());
    hooks.validate = [&job, count] { return mean_loss(*job.engine, *job.validation, count); };
  }
  return train(job.options, *job.engine, job.batches, *job.optimizer, hooks);
}

}  // namespace tessera
