#include "tessera/format/llama_size.h"

#include <array>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera {
namespace {

constexpr const char* kWhat = "the size of the Llama";

int64_t product(int64_t a, int64_t b) {
  return checked_multiply(a, b, kWhat);
}

int64_t sum(std::initializer_list<int64_t> terms) {
  int64_t total = 0;
  for (const int64_t term : terms) total = checked_add(total, term, kWhat);
  return total;
}

// The output sizes of q, and of k or v.
int64_t query_size(const LlamaConfig& config) {
  return product(config.num_attention_heads, config.head_dim);
}

int64_t key_size(const LlamaConfig& config) {
  return product(config.num_key_value_heads, config.head_dim);
}

int64_t attention_matrices(const LlamaConfig& config) {
  const int64_t outputs = product(2, sum({query_size(config), key_size(config)}));
  return product(config.hidden_size, outputs);
}

// Three matrices between the hidden states and `size`.
int64_t mlp_matrices(const LlamaConfig& config, int64_t size) {
  return product(config.hidden_size, product(3, size));
}

// The expert that all tokens visit, and its gate.
int64_t shared_matrices(const LlamaConfig& config) {
  const int64_t size = config.shared_expert_intermediate_size;
  return size == 0 ? 0 : sum({mlp_matrices(config, size), config.hidden_size});
}

// The router, and `experts` experts.
int64_t expert_matrices(const LlamaConfig& config, int64_t experts) {
  return sum({product(config.num_experts, config.hidden_size),
              product(experts, mlp_matrices(config, config.expert_size())),
              shared_matrices(config)});
}

// The elements of the matrices of all blocks, where a token reads `experts` experts.
int64_t blocks_matrices(const LlamaConfig& config, int64_t experts) {
  const int64_t sparse = config.num_sparse_layers();
  return sum(
      {product(config.num_hidden_layers, attention_matrices(config)),
       product(config.num_hidden_layers - sparse, mlp_matrices(config, config.intermediate_size)),
       sparse == 0 ? 0 : product(sparse, expert_matrices(config, experts))});
}

int64_t block_vectors(const LlamaConfig& config) {
  const int64_t norms =
      sum({product(2, config.hidden_size), config.qk_norm ? product(2, config.head_dim) : 0});
  const int64_t qkv = sum({query_size(config), product(2, key_size(config))});
  const int64_t attention = sum({qkv, config.hidden_size});
  const int64_t mlp = sum({product(2, config.intermediate_size), config.hidden_size});
  return sum({norms, config.attention_bias ? attention : 0, config.qkv_bias ? qkv : 0,
              config.mlp_bias ? mlp : 0});
}

int64_t vocabulary_matrix(const LlamaConfig& config) {
  return product(config.vocab_size, config.hidden_size);
}

}  // namespace

int64_t parameter_count(const LlamaConfig& config) {
  const int64_t vectors = product(config.num_hidden_layers, block_vectors(config));
  const int64_t vocabulary = product(config.tie_word_embeddings ? 1 : 2, vocabulary_matrix(config));
  return sum(
      {blocks_matrices(config, config.num_experts), vectors, vocabulary, config.hidden_size});
}

int64_t expert_parameter_count(const LlamaConfig& config) {
  if (config.num_experts == 0) return 0;
  return product(product(config.num_sparse_layers(), config.num_experts),
                 mlp_matrices(config, config.expert_size()));
}

int64_t flops_per_token(const LlamaConfig& config, int64_t positions) {
  TSR_CHECK(positions > 0, "positions=", positions, "; a sequence needs at least one token");
  // Queries times keys, and weights times values.
  const int64_t attention = product(2, product(query_size(config), positions));
  const int64_t forward =
      sum({blocks_matrices(config, config.num_experts_per_tok),
           product(config.num_hidden_layers, attention), vocabulary_matrix(config)});
  return product(6, forward);  // Multiply and add; the backward costs twice the forward.
}

}  // namespace tessera
