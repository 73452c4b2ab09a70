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
/// weights, then filled from files or by initial values.
///
///   Llama model(parse_llama_config(text, path));
///   model.load(WeightFiles(folder));
///   token_loss(model.forward(tokens), targets).backward();
///
/// For one thread at a time. A Llama on several ranks is a list of the same units: llama_model().
class Llama {
 public:
  explicit Llama(const LlamaConfig& config, const LlamaOptions& options = {});

  const LlamaConfig& config() const& { return config_; }
  LlamaConfig config() && { return std::move(config_); }
  at::ScalarType dtype() const { return options_.dtype; }
  at::Device device() const { return options_.device; }

  /// From tokens [batch, positions] (int64) to logits [batch, positions, vocab_size].
  at::Tensor forward(const at::Tensor& tokens, const Pass& pass = {}) const;
  /// Embedding, blocks in their order, norm and head.
  const std::vector<Unit>& units() const& { return units_; }
  std::vector<Unit> units() && { return std::move(units_); }
  /// Those of all units. A tied head is the embedding and is listed once, under its name.
  Parameters named_parameters() const;
  /// The number of elements in named_parameters().
  int64_t parameter_count() const;

  /// Changes the parameters in place; their gradients are dropped.
  void to(at::ScalarType dtype);
  void to(at::Device device);

  /// Whether parameters have no memory; what reads them raises an error.
  bool is_unallocated() const;
  /// See fill_llama().
  void initialize(uint64_t seed);
  void load(const WeightFiles& files);
  /// Writes a Hugging Face folder: config.json and the weights, in several files with an index
  /// if they have more than `shard_bytes`. ConfigError if the folder holds weights already.
  void save(const std::string& folder, int64_t shard_bytes = kShardBytes) const;
  /// The same with values from elsewhere, one parameter after the other: of a model whose parts lie
  /// on several ranks, for instance.
  void save(const std::string& folder, int64_t shard_bytes, const ParameterSource& source) const;
  static constexpr int64_t kShardBytes = int64_t{5} << 30;

 private:
  void move() const;

  LlamaConfig config_;
  LlamaOptions options_;
  std::vector<Unit> units_;
};

}  // namespace tessera
