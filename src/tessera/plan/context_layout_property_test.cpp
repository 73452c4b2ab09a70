#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "tessera/plan/context_layout.h"

namespace tessera {
namespace {

struct Sequence {
  DocumentLengths documents;
  int64_t ranks;
  int64_t length() const { return std::reduce(documents.begin(), documents.end()); }
};

// Documents of any length whose sum is a multiple of 2·ranks.
Sequence any_sequence() {
  Sequence sequence{
      *rc::gen::nonEmpty(rc::gen::container<DocumentLengths>(rc::gen::inRange<int64_t>(1, 40))),
      *rc::gen::inRange<int64_t>(1, 9)};
  const int64_t chunks = 2 * sequence.ranks;
  sequence.documents.push_back(chunks - sequence.length() % chunks);
  return sequence;
}

ContextLayout any_layout(const Sequence& sequence) {
  return make_context_layout(*rc::gen::elementOf(context_layouts()), sequence.documents,
                             sequence.ranks);
}

RC_GTEST_PROP(ContextLayoutProperty, EachPositionIsOnOneRank, ()) {
  const Sequence sequence = any_sequence();
  const ContextLayout layout = any_layout(sequence);
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    const std::vector<int64_t> own = layout.positions(rank);
    RC_ASSERT(std::ranges::is_sorted(own));
    all.insert(all.end(), own.begin(), own.end());
  }
  std::vector<int64_t> gathered = all;
  std::ranges::sort(all);
  std::vector<int64_t> expected(static_cast<size_t>(sequence.length()));
  std::iota(expected.begin(), expected.end(), 0);
  RC_ASSERT(all == expected);
  // Gathered positions in the order of restore() are the sequence.
  std::vector<int64_t> restored;
  for (const int64_t index : layout.restore()) {
    restored.push_back(gathered[static_cast<size_t>(index)]);
  }
  RC_ASSERT(restored == expected);
}

RC_GTEST_PROP(ContextLayoutProperty, PairsAreThoseOfTheSequence, ()) {
  const Sequence sequence = any_sequence();
  const std::vector<int64_t> pairs = causal_pairs(any_layout(sequence), sequence.documents);
  int64_t expected = 0;
  for (const int64_t length : sequence.documents) expected += length * (length + 1) / 2;
  RC_ASSERT(std::reduce(pairs.begin(), pairs.end()) == expected);
}

RC_GTEST_PROP(ContextLayoutProperty, HeadTailIsBalanced, ()) {
  const auto ranks = *rc::gen::inRange<int64_t>(2, 17);
  const auto chunk = *rc::gen::inRange<int64_t>(1, 20);
  const int64_t length = 2 * ranks * chunk;
  const std::vector<int64_t> pairs =
      causal_pairs(ContextLayout::head_tail(length, ranks), {length});
  const int64_t expected = 2 * ranks * chunk * chunk + chunk;
  RC_ASSERT(std::ranges::all_of(pairs, [&](int64_t own) { return own == expected; }));
}

// Documents of whole chunks are balanced exactly; others by less than what is left of them.
RC_GTEST_PROP(ContextLayoutProperty, PerDocumentIsBalanced, ()) {
  const Sequence sequence = any_sequence();
  const int64_t chunks = 2 * sequence.ranks;
  const std::vector<int64_t> pairs = causal_pairs(
      ContextLayout::per_document(sequence.documents, sequence.ranks), sequence.documents);
  int64_t rest = 0;
  for (const int64_t length : sequence.documents) rest += length % chunks * length;
  const auto [least, most] = std::ranges::minmax(pairs);
  RC_ASSERT(most - least <= rest);
  DocumentLengths whole = sequence.documents;
  for (int64_t& length : whole) length *= chunks;
  const auto even = causal_pairs(ContextLayout::per_document(whole, sequence.ranks), whole);
  RC_ASSERT(std::ranges::all_of(even, [&](int64_t own) { return own == even.front(); }));
}

RC_GTEST_PROP(ContextLayoutProperty, DividingIsAPartitionOfEachRank, ()) {
  const Sequence sequence = any_sequence();
  const ContextLayout layout = any_layout(sequence);
  std::vector<int64_t> divisors;
  for (int64_t piece = 1; piece <= layout.local_length(); ++piece) {
    if (layout.local_length() % piece == 0) divisors.push_back(piece);
  }
  const int64_t pieces = *rc::gen::elementOf(divisors);
  const ContextLayout divided = layout.divided(pieces);
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    std::vector<int64_t> joined;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const std::vector<int64_t> own = divided.positions(rank * pieces + piece);
      joined.insert(joined.end(), own.begin(), own.end());
    }
    RC_ASSERT(joined == layout.positions(rank));
  }
}

}  // namespace
}  // namespace tessera
