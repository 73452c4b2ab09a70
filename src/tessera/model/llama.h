#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"
#include "tessera/model/llama_units.h"

namespace tessera TSR_API {

class WeightFiles;

/// A Llama in one process, with Hugging Face's parameter names. It is built without memory for its
/// weights; load() or initialize() fills it.
///
///   Llama model(parse_llama_config(text, path));
///   model.load(WeightFiles(folder));
///   token_loss(model.forward(tokens), targets).backward();
///
/// One thread at a time. For several ranks, llama_model() has the same units as a list.
class Llama {
 public:
  explicit Llama(const LlamaConfig& config, const LlamaOptions& options = {});

  /// As given to the constructor.
  const LlamaConfig& config() const& { return config_; }
  LlamaConfig config() && { return std::move(config_); }
  /// Of the parameters, even if they have no memory yet.
  at::ScalarType dtype() const { return options_.dtype; }
  /// Of the parameters, even if they have no memory yet.
  at::Device device() const { return options_.device; }

  /// From tokens [batch, positions] (int64) to logits [batch, positions, vocab_size].
  at::Tensor forward(const at::Tensor& tokens, const Pass& pass = {}) const;
  /// Embedding, blocks in their order, norm and head.
  const std::vector<Unit>& units() const& { return units_; }
  std::vector<Unit> units() && { return std::move(units_); }
  /// The parameters of all units. A tied head is the embedding's weight and listed once, under that
  /// name.
  Parameters named_parameters() const;
  /// The number of elements in named_parameters().
  int64_t parameter_count() const;

  /// Changes the parameters in place and drops their gradients.
  void to(at::ScalarType dtype);
  void to(at::Device device);

  /// Whether parameters have no memory yet; reading them is an error.
  bool is_unallocated() const;
  /// Sets all parameters to initial values; see fill_llama().
  void initialize(uint64_t seed);
  /// Sets all parameters from files; see fill_llama().
  void load(const WeightFiles& files);
  /// Writes a Hugging Face folder: config.json and the weights, in several files with an index if
  /// they exceed `shard_bytes`. ConfigError if the folder already has weights.
  void save(const std::string& folder, int64_t shard_bytes = kShardBytes) const;
  /// The same with values from `source`, one parameter after the other, e.g. for a model that is
  /// distributed over several ranks.
  void save(const std::string& folder, int64_t shard_bytes, const ParameterSource& source) const;
  /// The default limit of a weight file, in bytes: 5 GiB. A larger tensor has a file of its own.
  static constexpr int64_t kShardBytes = int64_t{5} << 30;

 private:
  void move() const;

  LlamaConfig config_;
  LlamaOptions options_;
  std::vector<Unit> units_;
};

}  // namespace tessera
