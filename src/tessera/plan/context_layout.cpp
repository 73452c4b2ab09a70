#include "tessera/plan/context_layout.h"

#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/plan/internal/context_lengths.h"

namespace tessera {
using namespace plan::detail;
namespace {

// Appends a run, joined to the last one if it continues it.
void append(Runs& runs, Span run) {
  if (run.size() == 0) return;
  if (!runs.empty() && runs.back().end == run.begin) {
    runs.back().end = run.end;
  } else {
    runs.push_back(run);
  }
}

Runs joined(const Runs& runs) {
  Runs result;
  for (const Span& run : runs) {
    TSR_CHECK(0 <= run.begin && run.begin <= run.end && run.end <= kMostPositions, "the run [",
              run.begin, ", ", run.end, ") is not a range of positions from 0 to ", kMostPositions);
    append(result, run);
  }
  return result;
}

// The part [begin, end) of the local order of these runs.
Runs slice(const Runs& runs, Span part) {
  Runs result;
  int64_t first = 0;  // Local index of the run.
  for (const Span& run : runs) {
    const int64_t begin = std::max(part.begin - first, int64_t{0});
    const int64_t end = std::min(part.end - first, run.size());
    if (begin < end) append(result, {run.begin + begin, run.begin + end});
    first += run.size();
  }
  return result;
}

// Chunks r and 2·ranks-1-r of these positions, in order.
Runs head_and_tail(const Runs& runs, int64_t ranks, int64_t rank) {
  const int64_t chunk = total_size(runs) / (2 * ranks);
  Runs result = slice(runs, {rank * chunk, (rank + 1) * chunk});
  const int64_t tail = 2 * ranks - 1 - rank;
  for (const Span& run : slice(runs, {tail * chunk, (tail + 1) * chunk})) append(result, run);
  return result;
}

// Each position of [0, length) lies in one run.
void check_partition(const std::vector<Runs>& by_rank, int64_t length) {
  Runs all;
  for (const Runs& runs : by_rank) all.insert(all.end(), runs.begin(), runs.end());
  std::ranges::sort(all, {}, &Span::begin);
  int64_t next = 0;
  for (const Span& run : all) {
    TSR_CHECK(run.begin == next, "position ", std::min(run.begin, next), " is on ",
              run.begin < next ? "two ranks" : "no rank", "; give each position to one rank");
    next = run.end;
  }
  TSR_CHECK(next == length, "position ", next, " is on no rank; give each position to one rank");
}

}  // namespace

ContextLayout::ContextLayout(const std::vector<Runs>& runs) {
  TSR_CHECK(!runs.empty(), "a context layout needs at least one rank");
  for (const Runs& own : runs) runs_.push_back(joined(own));
  const int64_t share = total_size(runs_.front());
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    const int64_t own = total_size(this->runs(rank));
    TSR_CHECK(own == share, "rank ", rank, " holds ", own, " positions, but rank 0 holds ", share,
              "; give all ranks equally many");
  }
  length_ = share * ranks();
  check_partition(runs_, length_);
}

ContextLayout ContextLayout::head_tail(int64_t length, int64_t ranks) {
  check_two_chunks(length, ranks);
  return per_document({length}, ranks);
}

ContextLayout ContextLayout::contiguous(int64_t length, int64_t ranks) {
  check_one_chunk(length, ranks);
  std::vector<Runs> runs;
  for (int64_t rank = 0; rank < ranks; ++rank) runs.push_back({chunk(length, ranks, rank)});
  return ContextLayout(runs);
}

ContextLayout ContextLayout::striped(int64_t length, int64_t ranks) {
  check_one_chunk(length, ranks);
  std::vector<Runs> runs(static_cast<size_t>(ranks));
  for (int64_t p = 0; p < length; ++p) append(runs[static_cast<size_t>(p % ranks)], {p, p + 1});
  return ContextLayout(runs);
}

ContextLayout ContextLayout::per_document(const DocumentLengths& documents, int64_t ranks) {
  const int64_t length = total_length(documents);
  check_two_chunks(length, ranks);
  if (ranks == 1) return contiguous(length, 1);
  std::vector<Runs> runs(static_cast<size_t>(ranks));
  const auto deal = [&](const Runs& positions) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (const Span& run : head_and_tail(positions, ranks, rank)) {
        runs[static_cast<size_t>(rank)].push_back(run);
      }
    }
  };
  Runs rest;
  int64_t begin = 0;
  for (const int64_t document : documents) {
    const int64_t end = begin + document;
    const int64_t even = end - document % (2 * ranks);
    deal({{begin, even}});
    append(rest, {even, end});
    begin = end;
  }
  deal(rest);
  for (Runs& own : runs) std::ranges::sort(own, {}, &Span::begin);
  return ContextLayout(runs);
}

ContextLayout ContextLayout::of_blocks(const std::vector<std::vector<int64_t>>& blocks,
                                       int64_t block) {
  check_block(block);
  std::vector<Runs> runs;
  for (const std::vector<int64_t>& own : blocks) {
    Runs& positions = runs.emplace_back();
    for (const int64_t index : own) {
      TSR_CHECK(0 <= index && index < kMostPositions / block, "there is no block ", index, " of ",
                block, " positions");
      append(positions, {index * block, (index + 1) * block});
    }
  }
  return ContextLayout(runs);
}

const Runs& ContextLayout::runs(int64_t rank) const {
  TSR_CHECK(0 <= rank && rank < ranks(), "context-parallel rank ", rank, " is outside 0 to ",
            ranks() - 1);
  return runs_[static_cast<size_t>(rank)];
}

std::vector<int64_t> ContextLayout::positions(int64_t rank) const {
  std::vector<int64_t> list;
  list.reserve(static_cast<size_t>(local_length()));
  for (const Span& run : runs(rank)) {
    for (int64_t position = run.begin; position < run.end; ++position) list.push_back(position);
  }
  return list;
}

std::vector<int64_t> ContextLayout::restore() const {
  std::vector<int64_t> index(static_cast<size_t>(length_));
  int64_t next = 0;
  for (const Runs& own : runs_) {
    for (const Span& run : own) {
      const auto first = index.begin() + run.begin;
      std::iota(first, first + run.size(), next);
      next += run.size();
    }
  }
  return index;
}

ContextLayout ContextLayout::divided(int64_t pieces) const {
  TSR_CHECK(pieces >= 1 && local_length() % pieces == 0, "the ", local_length(),
            " positions of a rank do not divide into ", pieces, " equal pieces; choose a divisor");
  std::vector<Runs> result;
  for (const Runs& own : runs_) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      result.push_back(slice(own, chunk(local_length(), pieces, piece)));
    }
  }
  return ContextLayout(result);
}

std::vector<int64_t> causal_pairs(const ContextLayout& layout, const DocumentLengths& documents) {
  TSR_CHECK(total_length(documents) == layout.length(), "the documents have ",
            total_length(documents), " positions, but the layout has ", layout.length());
  std::vector<int64_t> keys;  // Of each query.
  keys.reserve(static_cast<size_t>(layout.length()));
  for (const int64_t document : documents) {
    for (int64_t key = 1; key <= document; ++key) keys.push_back(key);
  }
  std::vector<int64_t> pairs;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    int64_t& sum = pairs.emplace_back(0);
    for (const Span& run : layout.runs(rank)) {
      sum = std::accumulate(keys.begin() + run.begin, keys.begin() + run.end, sum);
    }
  }
  return pairs;
}

}  // namespace tessera
