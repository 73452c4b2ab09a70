#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/world.h"
#include "tessera/generate/key_value_cache.h"
#include "tessera/layer/pass.h"
#include "tessera/mesh/realize.h"
#include "tessera/model/llama_units.h"

namespace tessera TSR_API {

/// A model that writes: it runs forward only. With several ranks, tensor parallelism divides each
/// layer between them.
class LanguageModel {
 public:
  /// **Collective.** The world's ranks share each layer. `fill` sets the values of this rank's
  /// parts.
  LanguageModel(const LlamaConfig& config, const LlamaOptions& options, const WorldHandle& world,
                const std::function<void(const Parameters&)>& fill);

  /// Of the whole model, not of this rank's part.
  const LlamaConfig& config() const& { return config_; }
  LlamaConfig config() && { return std::move(config_); }
  /// The device for tokens and caches.
  at::Device device() const { return device_; }

  /// **Collective.** The logits [rows, vocabulary] of what follows the tokens [rows, count], which
  /// are the same on all ranks, as the logits are.
  at::Tensor next_logits(const at::Tensor& tokens, KeyValueCache& cache) const;

 private:
  LlamaConfig config_;
  at::Device device_;
  RealizedPlan plan_;
  std::vector<Unit> units_;
  std::shared_ptr<const TensorParallel> tensor_;
  std::shared_ptr<const ExpertParallel> experts_;
};

/// **Collective.** The model of a Hugging Face folder, of a run directory or of a checkpoint.
LanguageModel load_language_model(const std::string& path, const LlamaOptions& options,
                                  const WorldHandle& world);

}  // namespace tessera
