#include "tessera/plan/olmo/context_parallel.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/plan/internal/context_lengths.h"
#include "tessera/plan/internal/sizes.h"
#include "tessera/plan/packed_documents.h"

namespace tessera::olmo {

using namespace plan::detail;

namespace {

using Type = RingAttentionLoadBalancerType;

void check_rank(const RingAttentionLoadBalancer& balancer) {
  check_positive("cp", balancer.cp_world_size);
  TSR_CHECK(0 <= balancer.cp_rank && balancer.cp_rank < balancer.cp_world_size,
            "context-parallel rank ", balancer.cp_rank, " is outside 0 to ",
            balancer.cp_world_size - 1);
  TSR_CHECK(balancer.cp_world_size <= kMostPositions, "cp is ", balancer.cp_world_size,
            ", but must be at most ", kMostPositions);
}

// The given multiple of lengths, which `unit` must divide; without one the unit itself.
int64_t multiple_of(const ShardOptions& options, int64_t unit) {
  const int64_t multiple = options.length_multiple.value_or(unit);
  TSR_CHECK(1 <= multiple && multiple <= kMostPositions && multiple % unit == 0, "length_multiple ",
            multiple, " is not a multiple of ", unit, " up to ", kMostPositions);
  return multiple;
}

int64_t padded_length(int64_t length, int64_t multiple, bool pad) {
  const int64_t padded = pad_documents({length}, multiple).padded.front();
  TSR_CHECK(pad || padded == length, "the length ", length, " is not a multiple of ", multiple,
            " and no padding value is given; the next multiple is ", padded);
  return padded;
}

// Positions from `length` up are padding at the end.
std::vector<int64_t> without_padding(std::vector<int64_t> positions, int64_t length) {
  for (int64_t& position : positions) {
    if (position >= length) position = kPadding;
  }
  return positions;
}

// At least one position each, as in the cumulative lengths that it came from.
int64_t longest(const std::vector<int64_t>& cumulative) {
  int64_t most = 0;
  for (size_t i = 1; i < cumulative.size(); ++i) {
    most = std::max(most, cumulative[i] - cumulative[i - 1]);
  }
  return most;
}

DocumentShard zig_zag_documents(const RingAttentionLoadBalancer& balancer,
                                const DocumentLengths& lengths, const ShardOptions& options) {
  const int64_t ranks = balancer.cp_world_size;
  const PaddedDocuments documents = pad_documents(lengths, 2 * ranks);
  for (size_t i = 0; i < lengths.size(); ++i) padded_length(lengths[i], 2 * ranks, options.pad);
  const ContextLayout layout = ContextLayout::per_document(documents.padded, ranks);
  DocumentShard shard{.positions = documents.unpadded(layout.positions(balancer.cp_rank))};
  for (const int64_t end : cumulative_lengths(documents.padded)) {
    shard.cu_doc_lens.push_back(end / ranks);
  }
  if (options.length_multiple) {  // Of the local length, with a document of padding.
    const int64_t end = padded_length(layout.local_length(), multiple_of(options, 1), options.pad);
    shard.positions.resize(static_cast<size_t>(end), kPadding);
    shard.cu_doc_lens.push_back(end);
  }
  shard.max_doc_len = longest(shard.cu_doc_lens);
  return shard;
}

// The documents, and a last one of padding if their sum is no multiple.
std::vector<int64_t> with_padding_document(std::vector<int64_t> cumulative, int64_t multiple,
                                           bool pad) {
  const int64_t end = padded_length(cumulative.back(), multiple, pad);
  if (end > cumulative.back()) cumulative.push_back(end);
  return cumulative;
}

std::vector<int64_t> contiguous_positions(const RingAttentionLoadBalancer& balancer, int64_t padded,
                                          int64_t length) {
  const ContextLayout layout = ContextLayout::contiguous(padded, balancer.cp_world_size);
  return without_padding(layout.positions(balancer.cp_rank), length);
}

DocumentShard ulysses_documents(const RingAttentionLoadBalancer& balancer,
                                const std::vector<int64_t>& cu_doc_lens,
                                const ShardOptions& options) {
  DocumentShard shard;
  shard.cu_doc_lens =
      with_padding_document(cu_doc_lens, multiple_of(options, balancer.cp_world_size), options.pad);
  shard.max_doc_len = longest(shard.cu_doc_lens);
  shard.positions = contiguous_positions(balancer, shard.cu_doc_lens.back(), cu_doc_lens.back());
  return shard;
}

// Each rank attends to the keys from the start of its first document to its own end.
DocumentShard llama3_documents(const RingAttentionLoadBalancer& balancer,
                               const std::vector<int64_t>& cu_doc_lens,
                               const ShardOptions& options) {
  const int64_t ranks = balancer.cp_world_size;
  const int64_t multiple = multiple_of(options, 1);
  TSR_CHECK(multiple <= kMostPositions / ranks, "length_multiple ", multiple, " × cp ", ranks,
            " is above ", kMostPositions);
  const int64_t whole = options.length_multiple ? multiple * ranks : ranks;
  const std::vector<int64_t> ends = with_padding_document(cu_doc_lens, whole, options.pad);
  const Span queries = chunk(ends.back(), ranks, balancer.cp_rank);
  DocumentShard shard{.positions = contiguous_positions(balancer, ends.back(), cu_doc_lens.back()),
                      .cu_doc_lens_q = {0},
                      .cu_doc_lens_k = {0}};
  for (size_t i = 1; i < ends.size(); ++i) {
    const int64_t end = std::min(ends[i], queries.end);
    if (ends[i] <= queries.begin || ends[i - 1] >= queries.end) continue;
    if (shard.cu_doc_lens_k.size() == 1) shard.local_k_slice = {ends[i - 1], queries.end};
    shard.cu_doc_lens_q.push_back(end - queries.begin);
    shard.cu_doc_lens_k.push_back(end - shard.local_k_slice.begin);
  }
  shard.max_doc_len_q = longest(shard.cu_doc_lens_q);
  shard.max_doc_len_k = longest(shard.cu_doc_lens_k);
  return shard;
}

}  // namespace

std::vector<int64_t> RingAttentionLoadBalancer::batch_shard(int64_t seq_len,
                                                            const ShardOptions& options) const {
  check_rank(*this);
  TSR_CHECK(type != Type::llama3,
            "the llama3 load balancer takes documents only; call batch_shard_by_document()");
  const int64_t unit = type == Type::zig_zag ? 2 * cp_world_size : cp_world_size;
  const int64_t padded = padded_length(seq_len, multiple_of(options, unit), options.pad);
  if (type == Type::ulysses) return contiguous_positions(*this, padded, seq_len);
  const ContextLayout layout = ContextLayout::head_tail(padded, cp_world_size);
  return without_padding(layout.positions(cp_rank), seq_len);
}

DocumentShard RingAttentionLoadBalancer::batch_shard_by_document(
    const std::vector<int64_t>& cu_doc_lens, const ShardOptions& options) const {
  check_rank(*this);
  const DocumentLengths lengths = lengths_of(cu_doc_lens);
  total_length(lengths);
  switch (type) {
    case Type::zig_zag:
      return zig_zag_documents(*this, lengths, options);
    case Type::llama3:
      return llama3_documents(*this, cu_doc_lens, options);
    case Type::ulysses:
      return ulysses_documents(*this, cu_doc_lens, options);
  }
  throw InternalError("unknown load balancer");
}

TransformerContextParallelConfig TransformerContextParallelConfig::zig_zag(int64_t degree,
                                                                           int64_t head_stride) {
  return {{degree}, RingContextParallelStyle{Type::zig_zag, head_stride}};
}

TransformerContextParallelConfig TransformerContextParallelConfig::llama3(int64_t degree,
                                                                          int64_t head_stride) {
  return {{degree}, RingContextParallelStyle{Type::llama3, head_stride}};
}

TransformerContextParallelConfig TransformerContextParallelConfig::ulysses(int64_t degree) {
  return {{degree}, std::nullopt, UlyssesContextParallelStyle{}};
}

ContextParallelOptions context_parallel_options(const TransformerContextParallelConfig& config) {
  TSR_CHECK(config.ring.has_value() != config.uly.has_value(),
            "TransformerContextParallelConfig has ", config.ring ? "both" : "neither",
            " of ring and uly; set exactly one");
  if (config.uly) return {.type = "ulysses", .layout = "contiguous"};
  switch (config.ring->load_balancer) {
    case Type::zig_zag:
      return {.type = "ring", .layout = "per-document"};
    case Type::llama3:
      return {
          .type = "all-gather", .layout = "contiguous", .head_stride = config.ring->head_stride};
    case Type::ulysses:
      break;
  }
  throw ConfigError("RingContextParallelStyle.load_balancer is ulysses; set uly instead of ring");
}

}  // namespace tessera::olmo
