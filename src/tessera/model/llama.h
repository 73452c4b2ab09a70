#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/format/llama_config.h"
#include "tessera/layer/parameter.h"
#include "tessera/layer/weight_gradients.h"

namespace tessera TSR_API {

class WeightFiles;

/// What of a Llama is built: consecutive blocks, before the first of them the embedding, after the
/// last of them the final norm and the head. A stage of a pipeline holds such a part.
struct LlamaPart {
  int64_t begin = 0;      // The first block,
  int64_t end = 0;        // and the one after the last.
  bool embedding = true;  // The part takes tokens; otherwise hidden states.
  bool head = true;       // The part gives logits; otherwise hidden states.

  friend bool operator==(const LlamaPart&, const LlamaPart&) = default;
};

struct LlamaOptions {
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  std::optional<LlamaPart> part = std::nullopt;  // The whole model.
};

/// What one forward pass is to do besides.
struct LlamaPass {
  const WeightGradients* deferred = nullptr;  // Where the linears leave their weight gradients.
};

/// A Llama with Hugging Face's parameter names. It is built without memory for its weights, then
/// filled from files or by initial values.
///
///   Llama model(parse_llama_config(text, path));
///   model.load(WeightFiles(folder));
///   token_loss(model.forward(tokens), targets).backward();
///
/// Blocks keep their number in the whole model, so that parts run one after the other are the
/// whole: tokens → embed → block 0 … block n-1 → head → logits. For one thread at a time.
class Llama {
 public:
  explicit Llama(const LlamaConfig& config, const LlamaOptions& options = {});
  Llama(Llama&&) noexcept;
  Llama& operator=(Llama&&) noexcept;
  ~Llama();

  const LlamaConfig& config() const;
  const LlamaPart& part() const;
  at::ScalarType dtype() const;
  at::Device device() const;

  /// All of this part: from tokens [batch, positions] (int64) or hidden states [batch, positions,
  /// hidden_size] to logits [batch, positions, vocab_size] or hidden states.
  at::Tensor forward(const at::Tensor& input, const LlamaPass& pass = {}) const;

  /// The pieces of forward(). ConfigError where this part does not have them.
  at::Tensor embed(const at::Tensor& tokens) const;
  at::Tensor block(int64_t index, const at::Tensor& hidden, const LlamaPass& pass = {}) const;
  at::Tensor head(const at::Tensor& hidden, const LlamaPass& pass = {}) const;

  /// What this part holds: embedding, blocks in their order, norm, head. A tied head is the
  /// embedding and is listed once, under the embedding's name; a part with a tied head and without
  /// embedding holds a copy, whose gradients the stages have to add up.
  NamedParameters named_parameters() const;
  /// Those of one block; those of norm and head. They are what strategies treat as one.
  NamedParameters block_parameters(int64_t index) const;
  NamedParameters head_parameters() const;
  /// The number of elements in named_parameters().
  int64_t parameter_count() const;

  /// Changes the parameters in place; their gradients are dropped.
  void to(at::ScalarType dtype);
  void to(at::Device device);

  /// Whether parameters have no memory; what reads them raises an error.
  bool is_hollow() const;
  /// Normal values with config().initializer_range, ones in norms, zeros in biases; functions of
  /// seed, name and index alone, so that each part gets what the whole would have there.
  void initialize(uint64_t seed);
  /// Fills the parameters, converted to their dtype. DataError where a tensor is missing, has
  /// another shape or no floating-point dtype, or belongs to no Llama of this config.
  void load(const WeightFiles& files);
  /// Writes a Hugging Face folder: config.json and the weights, in several files with an index
  /// where they have more than `shard_bytes`. ConfigError where the folder holds weights already,
  /// and for a part of a model.
  void save(const std::string& folder, int64_t shard_bytes = kShardBytes) const;
  /// The same with values from elsewhere, one parameter after the other: of a model whose parts lie
  /// on several ranks, for instance.
  void save(const std::string& folder, int64_t shard_bytes, const ParameterSource& source) const;
  static constexpr int64_t kShardBytes = int64_t{5} << 30;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
