// The layouts by name, and the lengths that they take.
#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/plan/context_layout.h"
#include "tessera/plan/internal/context_lengths.h"
#include "tessera/plan/internal/sizes.h"

namespace tessera::plan::detail {
namespace {

void check_multiple(int64_t length, int64_t ranks, int64_t chunks_per_rank) {
  check_positive("cp", ranks);
  TSR_CHECK(1 <= length && length <= kMostPositions, "the sequence length is ", length,
            ", but must be from 1 to ", kMostPositions);
  TSR_CHECK(ranks <= kMostPositions, "cp is ", ranks, ", but must be at most ", kMostPositions);
  const int64_t chunks = ranks * chunks_per_rank;
  const int64_t below = length / chunks * chunks;
  std::vector<int64_t> nearest;
  if (below > 0) nearest.push_back(below);
  nearest.push_back(below + chunks);
  TSR_CHECK(length % chunks == 0, "the sequence length ", length, " is not a multiple of ",
            chunks_per_rank == 1 ? "cp = " : "2·cp = ", chunks,
            "; nearest legal lengths: ", join(nearest, ", "));
}

}  // namespace

int64_t total_length(const DocumentLengths& documents) {
  TSR_CHECK(!documents.empty(), "a sequence needs at least one document");
  int64_t total = 0;
  for (const int64_t length : documents) {
    TSR_CHECK(1 <= length && length <= kMostPositions - total, "a document has ", length,
              " positions; each must have at least 1, and all together at most ", kMostPositions);
    total += length;
  }
  return total;
}

void check_one_chunk(int64_t length, int64_t ranks) {
  check_multiple(length, ranks, 1);
}

void check_two_chunks(int64_t length, int64_t ranks) {
  check_multiple(length, ranks, ranks == 1 ? 1 : 2);
}

void check_block(int64_t block) {
  TSR_CHECK(1 <= block && block <= kMostPositions, "the block size is ", block,
            ", but must be from 1 to ", kMostPositions);
}

}  // namespace tessera::plan::detail

namespace tessera {
using namespace plan::detail;
namespace {

struct LayoutEntry {
  std::string_view name;
  void (*check)(int64_t length, int64_t ranks);
  ContextLayout (*make)(const DocumentLengths& documents, int64_t ranks);
};

constexpr std::array kLayouts{
    LayoutEntry{"head-tail", check_two_chunks,
                [](const DocumentLengths& documents, int64_t ranks) {
                  return ContextLayout::head_tail(total_length(documents), ranks);
                }},
    LayoutEntry{"contiguous", check_one_chunk,
                [](const DocumentLengths& documents, int64_t ranks) {
                  return ContextLayout::contiguous(total_length(documents), ranks);
                }},
    LayoutEntry{"striped", check_one_chunk,
                [](const DocumentLengths& documents, int64_t ranks) {
                  return ContextLayout::striped(total_length(documents), ranks);
                }},
    LayoutEntry{"per-document", check_two_chunks, ContextLayout::per_document},
    LayoutEntry{"sorted-blocks", check_two_chunks,
                [](const DocumentLengths& documents, int64_t ranks) {
                  return ContextLayout::sorted_blocks(documents, ranks);
                }},
};

const LayoutEntry& layout_of(std::string_view name) {
  const auto* const at = std::ranges::find(kLayouts, name, &LayoutEntry::name);
  if (at == kLayouts.end()) {
    const std::vector<std::string> names = context_layouts();
    throw ConfigError(
        concat("cp-layout is '", name, "'; choose ", join(names, ", "), did_you_mean(name, names)));
  }
  return *at;
}

}  // namespace

std::vector<std::string> context_layouts() {
  std::vector<std::string> names;
  for (const LayoutEntry& layout : kLayouts) names.emplace_back(layout.name);
  return names;
}

ContextLayout make_context_layout(std::string_view name, const DocumentLengths& documents,
                                  int64_t ranks) {
  return layout_of(name).make(documents, ranks);
}

void check_context_layout(std::string_view name, int64_t length, int64_t ranks) {
  layout_of(name).check(length, ranks);
}

}  // namespace tessera
