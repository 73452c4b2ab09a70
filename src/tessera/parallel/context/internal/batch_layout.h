#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/layer/block_attention.h"
#include "tessera/layer/documents.h"
#include "tessera/topology/box.h"

namespace tessera::context::detail {

using Positions = std::vector<int64_t>;

/// The positions that each rank holds of some rows, in ascending order.
struct RowsLayout {
  Span rows;
  CausalMask mask;  // Without documents: one.
  std::vector<Positions> ranks;
};

/// One entry for all rows, or one per row if they have documents.
using BatchLayout = std::vector<RowsLayout>;

struct BatchShape {
  int64_t rows = 1;
  int64_t length = 1;  // Positions of a whole sequence.
  int64_t ranks = 1;
};

/// The layout of this name. ConfigError if the documents do not fit the shape.
BatchLayout batch_layout(const std::string& name, const BatchShape& shape,
                         const PackedRows* documents);

void set_window(BatchLayout& layout, int64_t window);

/// The layout of ranks / `size` ranks: each holds the positions of `size` consecutive ones.
BatchLayout joined(const BatchLayout& layout, int64_t size);

/// Blocks between the queries of one rank and the keys of another.
AttentionBlocks blocks_between(const BatchLayout& layout, int64_t queries, int64_t keys);

/// Which tokens to take from a row of a batch: element i of the result is element order[i]. One
/// list for all rows, or one per row.
using Orders = std::vector<Positions>;
/// From the tokens of these ranks, one rank after the other, to ascending positions.
Orders orders_of(const BatchLayout& layout, Span ranks);
Orders inverse(const Orders& orders);
/// Takes them from dimension `dim` of a tensor whose dimension 0 has the rows.
at::Tensor reordered(const at::Tensor& tensor, const Orders& orders, int64_t dim);

}  // namespace tessera::context::detail
