// Layouts of blocks that are sorted by their cost.
#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/plan/context_layout.h"
#include "tessera/plan/internal/context_lengths.h"
#include "tessera/plan/internal/sizes.h"

namespace tessera {
using namespace plan::detail;
namespace {

constexpr int64_t kMostBlock = 128;  // The block size of PyTorch's block masks.

int64_t fitting_block(int64_t length, int64_t ranks) {
  int64_t block = kMostBlock;
  while (length % (2 * ranks * block) != 0) block /= 2;
  return block;
}

}  // namespace

std::vector<int64_t> block_costs(const CausalMask& mask, int64_t block) {
  const int64_t length = total_length(mask.documents);
  check_block(block);
  TSR_CHECK(length % block == 0, "the sequence length ", length, " is not a multiple of the block ",
            block, "; choose a divisor of the length");
  TSR_CHECK(!mask.window || *mask.window >= 1, "the window is ", mask.window.value_or(0),
            ", but must be at least 1");
  std::vector<int64_t> costs;
  int64_t document_begin = 0;
  auto document = mask.documents.begin();
  // The first query of a block reaches furthest back; keys end within the block itself.
  for (int64_t query = 0; query < length; query += block) {
    while (document_begin + *document <= query) document_begin += *document++;
    const int64_t first = std::max(document_begin, query + 1 - mask.window.value_or(length));
    costs.push_back(query / block - first / block + 1);
  }
  return costs;
}

std::vector<std::vector<int64_t>> deal_blocks(const std::vector<int64_t>& costs, int64_t ranks) {
  check_positive("cp", ranks);
  const auto count = static_cast<int64_t>(costs.size());
  TSR_CHECK(count > 0 && count % ranks == 0, count, " blocks cannot be dealt to ", ranks,
            " ranks in equal number; choose a multiple of ", ranks, " blocks");
  std::vector<int64_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  const auto cost = [&](int64_t index) { return costs[static_cast<size_t>(index)]; };
  std::ranges::stable_sort(order, std::greater(), cost);
  std::vector<std::vector<int64_t>> blocks(static_cast<size_t>(ranks));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t turn = i % ranks;
    const bool forward = i / ranks % 2 == 0;
    const int64_t rank = forward ? turn : ranks - 1 - turn;
    blocks[static_cast<size_t>(rank)].push_back(order[static_cast<size_t>(i)]);
  }
  for (std::vector<int64_t>& own : blocks) std::ranges::sort(own);
  return blocks;
}

ContextLayout ContextLayout::sorted_blocks(const DocumentLengths& documents, int64_t ranks,
                                           std::optional<int64_t> block) {
  const int64_t length = total_length(documents);
  if (!block) check_two_chunks(length, ranks);
  if (!block && ranks == 1) return contiguous(length, 1);
  const int64_t size = block ? *block : fitting_block(length, ranks);
  return of_blocks(deal_blocks(block_costs({documents}, size), ranks), size);
}

}  // namespace tessera
