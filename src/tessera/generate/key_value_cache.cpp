#include "tessera/generate/key_value_cache.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/layer/window_attention.h"

namespace tessera {
namespace {

// Makes room for a row's tokens when the first ones show its shape, and adds these.
at::Tensor add(at::Tensor& stored, const at::Tensor& tokens, int64_t filled, int64_t capacity) {
  if (!stored.defined()) {
    stored =
        at::empty({tokens.size(0), capacity, tokens.size(2), tokens.size(3)}, tokens.options());
  }
  stored.narrow(1, filled, tokens.size(1)).copy_(tokens);
  return stored.narrow(1, 0, filled + tokens.size(1));
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t layers, const std::vector<int64_t>& lengths, int64_t capacity,
                             at::Device device)
    : capacity_(capacity) {
  TSR_CHECK(!lengths.empty() && std::ranges::min(lengths) > 0,
            "a cache needs at least one row, and each row at least one token");
  const int64_t longest = std::ranges::max(lengths);
  std::vector<int64_t> padding;
  for (const int64_t length : lengths) padding.push_back(longest - length);
  padding_ = at::tensor(padding, at::device(device).dtype(at::kLong)).unsqueeze(1);
  is_padded_ = std::ranges::max(padding) > 0;
  for (int64_t i = 0; i < layers; ++i) layers_.emplace_back(*this);
}

at::Tensor KeyValueCache::positions(int64_t count) const {
  const at::Tensor slots = at::arange(filled_, filled_ + count, padding_.options());
  return (slots - padding_).clamp_min(0);
}

void KeyValueCache::advance(int64_t count) {
  TSR_CHECK(filled_ + count <= capacity_, "a cache of ", capacity_, " tokens has no room for ",
            filled_ + count);
  filled_ += count;
}

at::Tensor KeyValueCache::mask(int64_t count, int64_t window) const {
  const at::Tensor keys = at::arange(filled_ + count, padding_.options());
  const at::Tensor queries = at::arange(filled_, filled_ + count, padding_.options()).unsqueeze(1);
  at::Tensor seen = (keys <= queries).unsqueeze(0) & (keys >= padding_.unsqueeze(2));
  if (window > 0) seen = seen & (queries - keys < window);
  // Padding sees itself: the softmax of nothing would be no number.
  return (seen | (keys == queries)).unsqueeze(1);
}

at::Tensor KeyValueCache::Layer::attend(const at::Tensor& queries, const at::Tensor& keys,
                                        const at::Tensor& values, int64_t window,
                                        const Pass& /*pass*/) const {
  const int64_t filled = cache_.filled_;
  const int64_t count = queries.size(1);
  TSR_CHECK(filled + count <= cache_.capacity_, "a cache of ", cache_.capacity_,
            " tokens has no room for ", filled + count);
  at::Tensor k = add(keys_, keys, filled, cache_.capacity_);
  at::Tensor v = add(values_, values, filled, cache_.capacity_);
  if (filled == 0 && !cache_.is_padded_) return window_attention(queries, keys, values, window);
  std::optional<at::Tensor> mask;
  if (cache_.is_padded_ || count > 1) {
    mask = cache_.mask(count, window);
  } else if (window > 0 && k.size(1) > window) {
    k = k.narrow(1, k.size(1) - window, window);
    v = v.narrow(1, v.size(1) - window, window);
  }
  const at::Tensor q = queries.transpose(1, 2);
  return at::scaled_dot_product_attention(q, k.transpose(1, 2), v.transpose(1, 2), mask,
                                          /*dropout_p=*/0, /*is_causal=*/false,
                                          /*scale=*/std::nullopt,
                                          /*enable_gqa=*/queries.size(2) != k.size(2))
      .transpose(1, 2);
}

}  // namespace tessera
