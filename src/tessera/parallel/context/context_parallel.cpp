#include "tessera/parallel/context/context_parallel.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <memory>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/layer/window_attention.h"
#include "tessera/parallel/context/internal/exchanges.h"
#include "tessera/plan/packed_documents.h"

namespace tessera {

using namespace context::detail;

namespace {

constexpr int64_t kPositions = 1;

at::Tensor tensor_of(const std::vector<Positions>& lists) {
  std::vector<at::Tensor> rows;
  for (const Positions& list : lists) rows.push_back(at::tensor(list, at::kLong));
  return at::stack(rows);
}

const Positions& own_positions(const RowsLayout& rows, const Group& group) {
  return rows.ranks[static_cast<size_t>(group.rank().value)];
}

}  // namespace

ContextParallel::ContextParallel(ContextGroups groups, ContextParallelOptions options)
    : groups_(std::move(groups)), options_(std::move(options)) {
  TSR_CHECK(options_.type != "hierarchical" || groups_.cp.size() == 1 ||
                (groups_.all_to_all && groups_.ring),
            "context parallelism of type hierarchical needs the groups of its sizes; pass them to "
            "train_plan()");
}

at::Tensor ContextParallel::cut(const at::Tensor& whole, const PackedRows* documents) const {
  if (groups_.cp.size() == 1) return whole;
  TSR_CHECK(whole.dim() > kPositions, "context parallelism needs [rows, positions, …], but got ",
            whole.sizes());
  const BatchLayout layout = batch_layout(
      options_.layout, {whole.size(0), whole.size(kPositions), groups_.cp.size()}, documents);
  Orders own;
  for (const RowsLayout& rows : layout) own.push_back(own_positions(rows, groups_.cp));
  return reordered(whole, own, kPositions);
}

at::Tensor ContextParallel::positions(int64_t length, const PackedRows* documents) const {
  if (groups_.cp.size() == 1 && documents == nullptr) return {};
  const int64_t rows = documents == nullptr ? 1 : static_cast<int64_t>(documents->size());
  std::vector<Positions> lists;
  for (const RowsLayout& row :
       batch_layout(options_.layout, {rows, length, groups_.cp.size()}, documents)) {
    const Positions& own = own_positions(row, groups_.cp);
    const DocumentLengths& lengths = row.mask.documents;
    lists.push_back(lengths.empty() ? own : positions_in_documents(own, lengths));
  }
  return tensor_of(lists);
}

at::Tensor ContextParallel::attend(const at::Tensor& queries, const at::Tensor& keys,
                                   const at::Tensor& values, int64_t window,
                                   const Pass& pass) const {
  if (groups_.cp.size() == 1) {
    Pass alone = pass;
    alone.context = nullptr;
    return window_attention(queries, keys, values, window, alone);
  }
  const AttentionInputs inputs{queries.transpose(1, 2), keys.transpose(1, 2),
                               values.transpose(1, 2)};
  return attend_by_type(inputs, window, pass).transpose(1, 2);
}

at::Tensor ContextParallel::attend_by_type(const AttentionInputs& inputs, int64_t window,
                                           const Pass& pass) const {
  const Group& cp = groups_.cp;
  const UnitLog log = recorder_.log_of(pass.unit);
  BatchLayout made =
      batch_layout(options_.layout, {inputs.q.size(0), inputs.q.size(2) * cp.size(), cp.size()},
                   pass.documents.get());
  if (window > 0) set_window(made, window);
  const auto layout = std::make_shared<const BatchLayout>(std::move(made));
  if (options_.type == "ring") {
    return custom_attention(inputs, ring_attention(cp, layout, log), pass.kept);
  }
  if (options_.type == "all-gather") {
    return custom_attention(inputs, gathered_attention(cp, layout, options_.head_stride, log),
                            pass.kept);
  }
  const Group& inner = options_.type == "ulysses" ? cp : *groups_.all_to_all;
  const int64_t size = inner.size();
  const int64_t first = cp.rank().value / size * size;
  const HeadExchange exchange(inner, *layout, {first, first + size}, log);
  const auto outer = std::make_shared<const BatchLayout>(joined(*layout, size));
  const AttentionKernel kernel = options_.type == "ulysses"
                                     ? recorded(block_attention(blocks_between(*outer, 0, 0)), log)
                                     : ring_attention(*groups_.ring, outer, log);
  const AttentionInputs heads = exchange.to_heads(inputs, pass.kept);
  return exchange.to_tokens(custom_attention(heads, kernel, pass.kept), pass.kept);
}

}  // namespace tessera
