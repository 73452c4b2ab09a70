#include "tessera/model/llama_units.h"

#include <memory>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/internal/llama_block.h"
#include "tessera/model/weights.h"
#include "tessera/parallel/tensor/column_linear.h"
#include "tessera/parallel/tensor/head_loss.h"
#include "tessera/parallel/tensor/vocabulary.h"
#include "tessera/tensor/random.h"

namespace tessera {

using namespace model::detail;

namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr VocabularyLossOptions kLoss{.ignore_index = kIgnoredTarget, .count_ignored = true};

at::TensorOptions tensor_options(const LlamaOptions& options) {
  return at::device(options.device).dtype(options.dtype);
}

at::Tensor vocabulary(const LlamaConfig& config, const LlamaOptions& options) {
  return make_parameter({config.vocab_size, config.hidden_size}, tensor_options(options));
}

Parameter vocabulary_parameter(const char* name, const at::Tensor& weight) {
  return {name, weight, 0};
}

Unit embedding_unit(const at::Tensor& weight, int64_t vocab_size) {
  return {.name = "model.embed_tokens",
          .parameters = {vocabulary_parameter(kEmbedding, weight)},
          .forward =
              [weight, vocab_size](const at::Tensor& tokens, const Pass& pass) {
                check_filled(weight);
                return vocabulary_embed(tokens, weight, vocabulary_rows(vocab_size, pass), pass);
              },
          .defers = true,
          .backward_reads = false};
}

Unit block_unit(int64_t index, const LlamaConfig& config, const LlamaOptions& options,
                const std::shared_ptr<Rotary>& rotary) {
  const Block block(config, index, tensor_options(options));
  Unit unit{.name = concat("model.layers.", index), .defers = true};
  block.list(unit.name, unit.parameters);
  unit.forward = [block, rotary, size = config.hidden_size](const at::Tensor& hidden,
                                                            const Pass& pass) {
    TSR_CHECK(hidden.dim() == 3 && hidden.size(2) == size, "hidden states have shape ",
              hidden.sizes(), ", but blocks need [batch, positions, ", size, "]");
    check_filled(block.attention.q.weight);
    return block(hidden, *rotary, pass);
  };
  return unit;
}

// `shared` is the embedding's weight if the head is tied and the embedding is here as well.
Unit head_unit(const LlamaConfig& config, const LlamaOptions& options, const at::Tensor& shared) {
  const at::Tensor weight = shared.defined() ? shared : vocabulary(config, options);
  const Norm norm(config.hidden_size, config.rms_norm_eps, tensor_options(options));
  Unit unit{.name = "lm_head", .defers = true};
  const bool copy = config.tie_word_embeddings && !shared.defined();
  if (copy) unit.parameters.push_back(vocabulary_parameter(kEmbedding, weight));
  unit.parameters.push_back({"model.norm.weight", norm.weight});
  if (!config.tie_word_embeddings) {
    unit.parameters.push_back(vocabulary_parameter("lm_head.weight", weight));
  }
  unit.forward = [norm, weight, size = config.vocab_size](const at::Tensor& hidden,
                                                          const Pass& pass) {
    check_filled(weight);
    if (pass.only_routes) return hidden;
    if (!pass.targets.defined()) return column_linear(norm(hidden), weight, {}, pass);
    return head_loss(norm(hidden), weight, pass.targets, vocabulary_rows(size, pass), pass,
                     {.loss = kLoss});
  };
  return unit;
}

Distribution initial(const std::string& name, const LlamaConfig& config) {
  if (name.ends_with("norm.weight")) return Constant{1};
  if (name.ends_with(".bias")) return Constant{0};
  return Normal{.std = config.initializer_range};
}

// Files may repeat a tied head, and old ones hold the frequencies of the rotary embedding.
bool is_no_parameter(std::string_view name, const LlamaConfig& config) {
  return name.ends_with(".rotary_emb.inv_freq") ||
         (config.tie_word_embeddings && name == "lm_head.weight");
}

Parameters whole_llama(const LlamaConfig& config) {
  return parameters_of(llama_units(config, {}, {0, num_llama_units(config)}));
}

}  // namespace

int64_t num_llama_units(const LlamaConfig& config) {
  return config.num_hidden_layers + 2;
}

std::vector<Unit> llama_units(const LlamaConfig& config, const LlamaOptions& options, Span units) {
  check(config);
  TSR_CHECK(at::isFloatingType(options.dtype), "a Llama of dtype ", options.dtype,
            " cannot be trained; choose a floating-point dtype");
  const int64_t count = num_llama_units(config);
  TSR_CHECK(0 <= units.begin && units.begin <= units.end && units.end <= count, "units ",
            units.begin, " to ", units.end, " do not exist; the Llama has ", count);
  const auto rotary = std::make_shared<Rotary>(config);
  at::Tensor embedding;
  std::vector<Unit> made;
  for (int64_t i = units.begin; i < units.end; ++i) {
    if (i == 0) {
      embedding = vocabulary(config, options);
      made.push_back(embedding_unit(embedding, config.vocab_size));
    } else if (i + 1 == count) {
      made.push_back(
          head_unit(config, options, config.tie_word_embeddings ? embedding : at::Tensor()));
    } else {
      made.push_back(block_unit(i - 1, config, options, rotary));
    }
  }
  return made;
}

Model llama_model(const LlamaConfig& config, const LlamaOptions& options) {
  const int64_t count = num_llama_units(config);
  Model model{
      .num_units = count,
      .build = [config, options](Span units) { return llama_units(config, options, units); },
      .loss = ModelLoss([size = config.vocab_size](const at::Tensor& logits,
                                                   const at::Tensor& targets, const Pass& pass) {
                return vocabulary_loss(logits, targets, vocabulary_rows(size, pass), pass, kLoss);
              }).in_last_unit(),
      .ignored_target = kIgnoredTarget,
      .layers = {1, count - 1}};
  if (config.tie_word_embeddings) model.tied = {{kEmbedding, 0, count - 1}};
  if (config.num_sparse_layers() > 0) {
    model.balance = BalanceOptions{.layers = config.num_sparse_layers(),
                                   .experts = config.num_experts,
                                   .top_k = config.num_experts_per_tok,
                                   .coefficient = config.router_aux_loss_coef};
  }
  return model;
}

void fill_llama(const Parameters& parameters, const LlamaConfig& config, uint64_t seed) {
  for (const Parameter& parameter : parameters) {
    initialize(parameter, {.seed = seed, .name = parameter.name}, initial(parameter.name, config));
  }
}

void fill_llama(const Parameters& parameters, const LlamaConfig& config, const WeightFiles& files) {
  check_weights(files, whole_llama(config),
                [&](std::string_view name) { return is_no_parameter(name, config); });
  for (const Parameter& parameter : parameters) load(parameter, files);
}

}  // namespace tessera
