#include "tessera/parallel/context/internal/batch_layout.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/check.h"
#include "tessera/tensor/copied_to.h"

namespace tessera::context::detail {
namespace {

std::vector<Positions> ranks_of(const ContextLayout& layout) {
  std::vector<Positions> ranks;
  for (int64_t rank = 0; rank < layout.ranks(); ++rank) {
    ranks.push_back(layout.positions(rank));
    TSR_ASSERT(std::ranges::is_sorted(ranks.back()), "positions of rank ", rank, " in order");
  }
  return ranks;
}

// The positions of these ranks, one rank after the other.
Positions concatenated(const std::vector<Positions>& ranks, Span which) {
  Positions all;
  for (int64_t rank = which.begin; rank < which.end; ++rank) {
    const Positions& own = ranks[static_cast<size_t>(rank)];
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

Positions sorting_order(const Positions& positions) {
  Positions order(positions.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int64_t i) { return positions[static_cast<size_t>(i)]; });
  return order;
}

at::Tensor selected(const at::Tensor& tensor, const Positions& order, int64_t dim) {
  const bool is_all = static_cast<int64_t>(order.size()) == tensor.size(dim);
  if (is_all && std::ranges::is_sorted(order)) return tensor;
  return tensor.index_select(dim, copied_to(tensor.device(), at::tensor(order, at::kLong)));
}

}  // namespace

BatchLayout batch_layout(const std::string& name, const BatchShape& shape,
                         const PackedRows* documents) {
  if (documents == nullptr) {
    const ContextLayout layout = make_context_layout(name, {shape.length}, shape.ranks);
    return {{{0, shape.rows}, {}, ranks_of(layout)}};
  }
  TSR_CHECK(static_cast<int64_t>(documents->size()) == shape.rows, "documents of ",
            documents->size(), " rows do not fit a batch of ", shape.rows);
  BatchLayout rows;
  for (const DocumentLengths& lengths : *documents) {
    const auto row = static_cast<int64_t>(rows.size());
    const ContextLayout layout = make_context_layout(name, lengths, shape.ranks);
    TSR_CHECK(layout.length() == shape.length, "the documents of row ", row, " have ",
              layout.length(), " tokens, but a sequence has ", shape.length);
    rows.push_back({{row, row + 1}, {lengths}, ranks_of(layout)});
  }
  return rows;
}

void set_window(BatchLayout& layout, int64_t window) {
  for (RowsLayout& rows : layout) rows.mask.window = window;
}

BatchLayout joined(const BatchLayout& layout, int64_t size) {
  BatchLayout made;
  for (const RowsLayout& rows : layout) {
    RowsLayout& to = made.emplace_back(RowsLayout{rows.rows, rows.mask, {}});
    const auto ranks = static_cast<int64_t>(rows.ranks.size());
    for (int64_t first = 0; first < ranks; first += size) {
      to.ranks.push_back(concatenated(rows.ranks, {first, first + size}));
      std::ranges::sort(to.ranks.back());
    }
  }
  return made;
}

AttentionBlocks blocks_between(const BatchLayout& layout, int64_t queries, int64_t keys) {
  AttentionBlocks blocks;
  for (const RowsLayout& rows : layout) {
    add_causal_blocks(blocks, rows.rows, rows.ranks[static_cast<size_t>(queries)],
                      rows.ranks[static_cast<size_t>(keys)], rows.mask);
  }
  return blocks;
}

Orders orders_of(const BatchLayout& layout, Span ranks) {
  Orders orders;
  for (const RowsLayout& rows : layout) {
    orders.push_back(sorting_order(concatenated(rows.ranks, ranks)));
  }
  return orders;
}

Orders inverse(const Orders& orders) {
  Orders inverses;
  for (const Positions& order : orders) inverses.push_back(sorting_order(order));
  return inverses;
}

at::Tensor reordered(const at::Tensor& tensor, const Orders& orders, int64_t dim) {
  if (orders.size() == 1) return selected(tensor, orders[0], dim);
  std::vector<at::Tensor> rows;
  for (size_t row = 0; row < orders.size(); ++row) {
    rows.push_back(selected(tensor.narrow(0, static_cast<int64_t>(row), 1), orders[row], dim));
  }
  return at::cat(rows);
}

}  // namespace tessera::context::detail
