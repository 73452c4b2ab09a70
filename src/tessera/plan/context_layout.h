#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// The lengths of the documents of a packed sequence, in order; a sequence of one text has one.
using DocumentLengths = std::vector<int64_t>;

/// The positions of a sequence that each context-parallel rank holds, in local order.
///
/// All ranks hold equally many, and each position is on one rank. A value: thread-safe to read.
///
///   const ContextLayout layout = ContextLayout::head_tail(16, 2);
///   layout.runs(0);       // {{0, 4}, {12, 16}}
///   layout.restore();     // All-gathered rows [restore] are in the order of the sequence.
///
/// A head-tail layout cuts a sequence into 2·ranks chunks and gives rank r chunks r and
/// 2·ranks-1-r, so that all ranks compute equally many pairs of causal attention.
class ContextLayout {
 public:
  /// ConfigError unless length is a multiple of 2·ranks, or there is one rank.
  static ContextLayout head_tail(int64_t length, int64_t ranks);
  /// Rank r holds the r-th of equal pieces. ConfigError unless length is a multiple of ranks.
  static ContextLayout contiguous(int64_t length, int64_t ranks);
  /// Position p is on rank p mod ranks. ConfigError unless length is a multiple of ranks.
  static ContextLayout striped(int64_t length, int64_t ranks);
  /// The head-tail layout of each document. The last (length mod 2·ranks) positions of the
  /// documents are joined and cut in the same way, so that documents may have any length.
  /// ConfigError unless their sum is a multiple of 2·ranks, or there is one rank.
  static ContextLayout per_document(const DocumentLengths& documents, int64_t ranks);
  /// Blocks of `block` positions, with equally many blocks per rank, dealt by deal_blocks() so that
  /// ranks attend to about equally many blocks of keys under a causal mask of the documents.
  /// Without `block`: the largest power of two up to 128 that gives each rank an even number.
  static ContextLayout sorted_blocks(const DocumentLengths& documents, int64_t ranks,
                                     std::optional<int64_t> block = std::nullopt);
  /// From the blocks that each rank holds.
  static ContextLayout of_blocks(const std::vector<std::vector<int64_t>>& blocks, int64_t block);

  /// From the runs of each rank. ConfigError unless all ranks hold equally many positions, and all
  /// together each position from 0 up once.
  explicit ContextLayout(const std::vector<Runs>& runs);

  /// Context-parallel ranks, at least 1.
  int64_t ranks() const { return static_cast<int64_t>(runs_.size()); }
  /// Positions of the whole sequence.
  int64_t length() const { return length_; }
  /// Positions per rank.
  int64_t local_length() const { return length_ / ranks(); }
  /// The longest runs of consecutive positions in the local order of a rank.
  const Runs& runs(int64_t rank) const;
  /// In local order. ConfigError unless rank is from 0 to ranks() - 1, as for runs().
  std::vector<int64_t> positions(int64_t rank) const;
  /// The inverse of all ranks' positions joined in rank order: element p is the index of position p
  /// in the all-gathered sequence.
  std::vector<int64_t> restore() const;

  /// The layout of `pieces` times as many ranks: rank r's positions, in local order, in equal
  /// pieces on ranks r·pieces to (r+1)·pieces-1.
  ContextLayout divided(int64_t pieces) const;

  friend bool operator==(const ContextLayout&, const ContextLayout&) = default;

 private:
  int64_t length_ = 0;
  std::vector<Runs> runs_;
};

/// The names of all layouts: head-tail, contiguous, striped, per-document, sorted-blocks.
std::vector<std::string> context_layouts();
/// The layout of this name for a sequence of these documents. ConfigError for an unknown name and a
/// length that the layout does not take, with the nearest legal ones.
ContextLayout make_context_layout(std::string_view name, const DocumentLengths& documents,
                                  int64_t ranks);
/// The same ConfigErrors for a sequence of this length, whatever its documents, without a layout.
void check_context_layout(std::string_view name, int64_t length, int64_t ranks);

/// The number of pairs of a query and a key that each rank computes: a query attends to the keys of
/// its document up to its own position. ConfigError if the documents' sum is not the length.
std::vector<int64_t> causal_pairs(const ContextLayout& layout, const DocumentLengths& documents);

/// Which keys a query attends to: those of its document up to its own position.
struct CausalMask {
  DocumentLengths documents;  // Of the whole sequence.
  /// At most this many keys per query, its own included; default: no limit.
  std::optional<int64_t> window = std::nullopt;
};
/// For each block of queries the number of key blocks with at least one pair. ConfigError unless
/// the length is a multiple of `block`.
std::vector<int64_t> block_costs(const CausalMask& mask, int64_t block);
/// PyTorch's PTRR: the blocks of each rank, in order. Deals blocks from the highest cost down to
/// ranks 0, 1, …, n-1, n-1, …, 1, 0, 0, …; of equal costs the first block first. ConfigError unless
/// the number of blocks is a multiple of `ranks`.
std::vector<std::vector<int64_t>> deal_blocks(const std::vector<int64_t>& costs, int64_t ranks);

}  // namespace tessera
