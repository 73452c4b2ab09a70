#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/custom_attention.h"
#include "tessera/layer/documents.h"
#include "tessera/plan/context_layout.h"
#include "tessera/topology/box.h"

/// Causal attention in blocks, for keys that arrive one part after the other, for documents that
/// share a row and for sliding windows. No block needs a mask.
namespace tessera TSR_API {

/// Which keys of a block its queries attend to.
enum class BlockShape {
  kFull,   // Each query attends to all keys.
  kLower,  // Query i attends to keys 0 … i.
  kUpper,  // Query i attends to keys i, i + 1, …
};

/// Queries and keys of some rows.
struct AttentionBlock {
  Span rows;                             // Of the batch, in dimension 0.
  Span queries;                          // Positions of queries, in dimension 2.
  Span keys;                             // Positions of keys and values, in dimension 2.
  BlockShape shape = BlockShape::kFull;  // kLower and kUpper need as many queries as keys.

  friend bool operator==(const AttentionBlock&, const AttentionBlock&) = default;
};
/// The blocks that a rank computes.
using AttentionBlocks = std::vector<AttentionBlock>;

/// Appends the blocks of all pairs of a query and a key in rows whose tokens have these positions,
/// in ascending order. A mask without documents means that there is one.
///
/// Few blocks suffice if the first and the last key of consecutive queries stay the same or advance
/// by one: head-tail, contiguous and striped layouts need at most two per pair of ranks and
/// document. A window needs up to three more per `window` queries.
void add_causal_blocks(AttentionBlocks& blocks, Span rows, std::span<const int64_t> queries,
                       std::span<const int64_t> keys, const CausalMask& mask = {});

/// The blocks of whole rows, given their queries [batch, heads, positions, head size]. `documents`
/// may be null. ConfigError if they are those of another number of rows.
AttentionBlocks row_blocks(const at::Tensor& queries, const PackedRows* documents,
                           std::optional<int64_t> window = std::nullopt);

/// Attention over keys that are added in blocks: their results are weighted with their log-sum-exps
/// and summed in float32, or in float64 for float64.
class AttentionSum {
 public:
  /// [batch, heads, positions, head size].
  explicit AttentionSum(const at::Tensor& queries);

  /// Keys and values are [batch, heads, positions, head size], and may have fewer heads than the
  /// queries. AttentionBlock::keys are positions of these keys.
  void add(const at::Tensor& keys, const at::Tensor& values, const AttentionBlocks& blocks);
  /// The output, in the dtype of the queries, and the log-sum-exp [batch, heads, positions]. A
  /// query without keys has zeros and -inf.
  AttentionKernel::Results results() const;

 private:
  bool is_first(const AttentionBlock& block) const;
  void merge(const AttentionBlock& block, const at::Tensor& output, const at::Tensor& log_sum_exp);

  at::Tensor queries_;  // In the dtype of the kernel.
  at::ScalarType dtype_;
  at::Tensor output_ = {};
  at::Tensor log_sum_exp_ = {};
  AttentionBlocks added_ = {};
};

/// The gradients of that sum, over the same blocks in any order. Summed like the output.
class AttentionGradients {
 public:
  /// `results` are those of the whole sum.
  AttentionGradients(const at::Tensor& gradient, const at::Tensor& queries,
                     const AttentionKernel::Results& results);

  /// Adds the gradients of some keys and values to `key_gradients` and `value_gradients`, which
  /// have the dtype gradient_sum_dtype().
  void add(const at::Tensor& keys, const at::Tensor& values, const AttentionBlocks& blocks,
           const at::Tensor& key_gradients, const at::Tensor& value_gradients);
  /// The gradient of the queries.
  at::Tensor queries() const;

 private:
  at::Tensor gradient_, queries_, output_, log_sum_exp_;
  at::ScalarType dtype_;
  at::Tensor sum_;
};

/// float64 for float64, otherwise float32.
at::ScalarType gradient_sum_dtype(at::ScalarType dtype);

/// Attention over blocks of tensors that are all on this rank.
AttentionKernel block_attention(AttentionBlocks blocks);

}  // namespace tessera
