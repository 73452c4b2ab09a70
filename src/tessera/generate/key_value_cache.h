#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// The keys and values of all tokens so far, so that a forward pass only computes new ones. Rows
/// may differ in length: shorter ones begin later, behind padding that nobody attends to.
///
///   KeyValueCache cache(layers, {5, 3}, 100);
///   … a forward pass over [2, 5] tokens, whose layer i has Pass::context = &cache.layer(i) …
///   cache.advance(5);
///   … passes over [2, 1] tokens …
///
/// One thread at a time.
class KeyValueCache {
 public:
  /// `lengths` are those of the rows' first tokens; `capacity` is the number of tokens per row,
  /// padding included.
  KeyValueCache(int64_t layers, const std::vector<int64_t>& lengths, int64_t capacity,
                at::Device device = at::kCPU);
  KeyValueCache(const KeyValueCache&) = delete;
  KeyValueCache& operator=(const KeyValueCache&) = delete;

  /// Attention of new tokens to themselves and to those in the cache, to which they are added.
  const ContextAttention& layer(int64_t index) const {
    return layers_.at(static_cast<size_t>(index));
  }
  /// The positions of the next `count` tokens of each row, [rows, count]. Padding has position 0.
  at::Tensor positions(int64_t count) const;
  /// The next pass has later tokens.
  void advance(int64_t count);

 private:
  class Layer final : public ContextAttention {
   public:
    explicit Layer(const KeyValueCache& cache) : cache_(cache) {}
    at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                      int64_t window, const Pass& pass) const override;
    int64_t ranks() const override { return 1; }

   private:
    const KeyValueCache& cache_;
    mutable at::Tensor keys_, values_;  // [rows, capacity, heads, head size]
  };

  /// Which tokens the next `count` ones attend to: [rows, 1, count, filled + count] of bool.
  at::Tensor mask(int64_t count, int64_t window) const;

  std::vector<Layer> layers_;
  at::Tensor padding_;  // Tokens of padding at the beginning of each row, [rows, 1].
  bool is_padded_;
  int64_t capacity_;
  int64_t filled_ = 0;  // Tokens per row, padding included.
};

}  // namespace tessera
