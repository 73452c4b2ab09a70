#include "tessera/generate/language_model.h"

#include <ATen/ops/cat.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "tessera/base/check.h"
#include "tessera/checkpoint/load.h"
#include "tessera/comm/collectives.h"
#include "tessera/format/weight_files.h"
#include "tessera/model/llama.h"
#include "tessera/parallel/tensor/tensor_units.h"
#include "tessera/plan/train_plan.h"
#include "tessera/run/model_source.h"
#include "tessera/train/compose.h"
#include "tessera/train/model_stage.h"

namespace tessera {
namespace {

std::vector<Unit> make_units(const LlamaConfig& config, const LlamaOptions& options,
                             const RealizedPlan& plan, GlobalRank rank) {
  const Model model = llama_model(config, options);
  std::vector<ModelStage> stages = build_stages(model, one_rank(), GroupRank{0});
  place_parameters(stages, model, plan.plan(), rank);
  cut_tensors(stages.at(0).units);
  return std::move(stages.at(0).units);
}

// The ranks' parts of the vocabulary, which may be uneven.
at::Tensor whole_rows(const at::Tensor& logits, const Group& tp) {
  if (tp.size() == 1) return logits;
  return at::cat(all_gather_uneven(logits.contiguous(), tp).wait(), -1);
}

}  // namespace

LanguageModel::LanguageModel(const LlamaConfig& config, const LlamaOptions& options,
                             const WorldHandle& world,
                             const std::function<void(const Parameters&)>& fill)
    : config_(config),
      device_(options.device),
      plan_(realize(train_plan(world.size(), {.tp = world.size()}), world)),
      units_(make_units(config, options, plan_, world.rank())),
      tensor_(std::make_shared<const TensorParallel>(
          TensorParallel{plan_.group("tp"), /*sequence=*/false})) {
  const at::NoGradGuard no_grad;
  fill(parameters_of(units_));
  if (world.size() == 1) return;
  experts_ =
      std::make_shared<const ExpertParallel>(ExpertParallel{plan_.group("ep"), plan_.group("etp")});
}

at::Tensor LanguageModel::next_logits(const at::Tensor& tokens, KeyValueCache& cache) const {
  const c10::InferenceMode inference;
  Pass pass{.tensor = tensor_.get(),
            .positions = cache.positions(tokens.size(1)),
            .experts = experts_.get()};
  const Unit& head = units_.back();
  at::Tensor x = units_.front().forward(tokens, pass);
  for (size_t i = 1; i + 1 < units_.size(); ++i) {
    pass.context = &cache.layer(static_cast<int64_t>(i) - 1);
    x = units_[i].forward(x, pass);
  }
  pass.context = nullptr;
  cache.advance(tokens.size(1));
  const at::Tensor last = x.narrow(1, x.size(1) - 1, 1);
  return whole_rows(head.forward(last, pass).squeeze(1), tensor_->group);
}

LanguageModel load_language_model(const std::string& path, const LlamaOptions& options,
                                  const WorldHandle& world) {
  const ModelSource source = find_model(path);
  if (source.is_checkpoint) {
    const Checkpoint checkpoint(source.path);
    const LlamaConfig config = stored_model_config(checkpoint);
    check_model(checkpoint, Llama(config).named_parameters());
    return {config, options, world,
            [&](const Parameters& parameters) { load_parameters(checkpoint, parameters); }};
  }
  const LlamaConfig config = read_llama_config(source.path);
  const WeightFiles files(source.path);
  return {config, options, world,
          [&](const Parameters& parameters) { fill_llama(parameters, config, files); }};
}

}  // namespace tessera
