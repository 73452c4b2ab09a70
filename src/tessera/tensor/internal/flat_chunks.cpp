#include "tessera/tensor/internal/flat_chunks.h"

namespace tessera::tensor::detail {
namespace {

// Whether each rank holds one run, of equal length and in rank order.
bool is_even(const ShardingSpec& spec) {
  const int64_t size = spec.largest_shard();
  for (int64_t rank = 0; rank < spec.num_ranks(); ++rank) {
    const FlatSpans expected{{rank * size, (rank + 1) * size}};
    if (spec.unsharded_flattened_offsets()[static_cast<size_t>(rank)] != expected) return false;
  }
  return true;
}

void copy_runs(const at::Tensor& flat, const FlatSpans& spans, const at::Tensor& chunk) {
  int64_t at = 0;
  for (const Span& span : spans) {
    chunk.narrow(0, at, span.size()).copy_(flat.narrow(0, span.begin, span.size()));
    at += span.size();
  }
}

}  // namespace

at::Tensor flat_chunk(const at::Tensor& flat, const FlatSpans& spans) {
  if (spans.empty()) return flat.narrow(0, 0, 0);
  if (spans.size() == 1) return flat.narrow(0, spans[0].begin, spans[0].size());
  at::Tensor chunk = flat.new_empty({total_size(spans)});
  copy_runs(flat, spans, chunk);
  return chunk;
}

std::vector<at::Tensor> padded_chunks(const at::Tensor& flat, const ShardingSpec& spec) {
  std::vector<at::Tensor> chunks;
  for (const FlatSpans& spans : spec.unsharded_flattened_offsets()) {
    chunks.push_back(flat.new_zeros({spec.largest_shard()}));
    copy_runs(flat, spans, chunks.back());
  }
  return chunks;
}

at::Tensor join_chunks(const at::Tensor& rows, const ShardingSpec& spec) {
  if (is_even(spec)) return rows.view(spec.unsharded_shape());
  const at::Tensor whole = rows.new_empty({spec.unsharded_numel()});
  for (int64_t rank = 0; rank < spec.num_ranks(); ++rank) {
    int64_t at = 0;
    for (const Span& span : spec.unsharded_flattened_offsets()[static_cast<size_t>(rank)]) {
      whole.narrow(0, span.begin, span.size()).copy_(rows[rank].narrow(0, at, span.size()));
      at += span.size();
    }
  }
  return whole.view(spec.unsharded_shape());
}

}  // namespace tessera::tensor::detail
