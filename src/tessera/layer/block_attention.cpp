#include "tessera/layer/block_attention.h"

#include <ATen/OpMathType.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/layer/internal/block_kernel.h"

namespace tessera {

using namespace layer::detail;

namespace {

constexpr int64_t kRows = 0;
constexpr int64_t kPositions = 2;

/// The documents of a row, for positions in ascending order.
class DocumentFinder {
 public:
  explicit DocumentFinder(const DocumentLengths& documents) : documents_(documents) {
    if (!documents.empty()) end_ = documents[0];
  }

  /// The first position of the document with this position.
  int64_t begin_of(int64_t position) {
    while (position >= end_) {
      begin_ = end_;
      end_ += documents_.at(++index_);
    }
    return begin_;
  }

 private:
  const DocumentLengths& documents_;
  size_t index_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = std::numeric_limits<int64_t>::max();
};

// For each query the range of keys that it attends to. Both ends ascend.
std::vector<Span> visible_keys(std::span<const int64_t> queries, std::span<const int64_t> keys,
                               const CausalMask& mask) {
  const auto count = static_cast<int64_t>(keys.size());
  const auto key = [&](int64_t index) { return keys[static_cast<size_t>(index)]; };
  std::vector<Span> visible;
  visible.reserve(queries.size());
  DocumentFinder finder(mask.documents);
  Span now;
  for (const int64_t query : queries) {
    const int64_t document = finder.begin_of(query);
    const int64_t first = std::max(document, query + 1 - mask.window.value_or(query + 1));
    while (now.begin < count && key(now.begin) < first) ++now.begin;
    now.end = std::max(now.begin, now.end);
    while (now.end < count && key(now.end) <= query) ++now.end;
    visible.push_back(now);
  }
  return visible;
}

Span step_between(const Span& a, const Span& b) {
  return {b.begin - a.begin, b.end - a.end};
}

// The end of the run of queries from `first` on whose ranges of keys all move by the same step: 0
// or 1 at either end.
size_t end_of_run(const std::vector<Span>& visible, size_t first) {
  size_t next = first + 1;
  if (next == visible.size()) return next;
  const Span step = step_between(visible[first], visible[next]);
  const bool is_window = step == Span{1, 1};
  if (step.begin > 1 || step.end > 1 || (is_window && visible[first].size() == 1)) return next;
  while (next < visible.size() && visible[next].size() > 0 &&
         step_between(visible[next - 1], visible[next]) == step) {
    ++next;
  }
  return next;
}

/// Consecutive queries. The first one sees `keys`; from one to the next this range moves by `step`.
struct QueryRun {
  Span rows, queries, keys, step;
};

// Of a run whose queries all see a common key: an upper triangle, what all see, a lower triangle.
void add_parts(AttentionBlocks& blocks, const QueryRun& run) {
  const int64_t count = run.queries.size();
  Span common = run.keys;
  if (run.step.begin == 1 && count > 1) {
    common.begin += count - 1;
    blocks.push_back({run.rows,
                      {run.queries.begin, run.queries.end - 1},
                      {run.keys.begin, common.begin},
                      BlockShape::kUpper});
  }
  if (run.step.end == 1 && count > 1) --common.end;
  if (common.size() > 0) blocks.push_back({run.rows, run.queries, common, BlockShape::kFull});
  if (common.end == run.keys.end) return;
  blocks.push_back({run.rows, run.queries, {common.end, common.end + count}, BlockShape::kLower});
}

// Queries whose first keys differ are cut into runs with a common key.
void add_run(AttentionBlocks& blocks, const QueryRun& run) {
  int64_t count = run.queries.size();
  if (run.step.begin == 1) count = std::min(count, run.keys.size());
  for (int64_t i = 0; i < run.queries.size(); i += count) {
    const int64_t begin = run.queries.begin + i;
    add_parts(blocks, {run.rows,
                       {begin, std::min(begin + count, run.queries.end)},
                       {run.keys.begin + i * run.step.begin, run.keys.end + i * run.step.end},
                       run.step});
  }
}

at::Tensor part(const at::Tensor& tensor, Span rows, Span positions) {
  const bool all_rows = rows.size() == tensor.size(kRows);
  const at::Tensor some = all_rows ? tensor : tensor.narrow(kRows, rows.begin, rows.size());
  return some.narrow(kPositions, positions.begin, positions.size());
}

// An upper triangle is a lower one with queries and keys in reverse order.
at::Tensor reversed(const at::Tensor& tensor) {
  return tensor.flip({kPositions});
}

AttentionInputs reversed(const AttentionInputs& in) {
  return {reversed(in.q), reversed(in.k), reversed(in.v)};
}

BlockResults results_of(const BlockKernel& kernel, const AttentionInputs& in, BlockShape shape) {
  if (shape != BlockShape::kUpper) return kernel.forward(in, shape == BlockShape::kLower);
  const auto [output, log_sum_exp] = kernel.forward(reversed(in), /*causal=*/true);
  return {reversed(output), reversed(log_sum_exp)};
}

AttentionInputs gradients_of(const BlockKernel& kernel, const at::Tensor& gradient,
                             const AttentionInputs& in, const BlockResults& results,
                             BlockShape shape) {
  if (shape != BlockShape::kUpper) {
    return kernel.backward(gradient, in, results, shape == BlockShape::kLower);
  }
  return reversed(kernel.backward(reversed(gradient), reversed(in),
                                  {reversed(results.output), reversed(results.log_sum_exp)},
                                  /*causal=*/true));
}

bool intersect(const Span& a, const Span& b) {
  return a.begin < b.end && b.begin < a.end;
}

}  // namespace

void add_causal_blocks(AttentionBlocks& blocks, Span rows, std::span<const int64_t> queries,
                       std::span<const int64_t> keys, const CausalMask& mask) {
  const std::vector<Span> visible = visible_keys(queries, keys, mask);
  size_t first = 0;
  while (first < visible.size()) {
    if (visible[first].size() == 0) {
      ++first;
      continue;
    }
    const size_t end = end_of_run(visible, first);
    const Span step = end == first + 1 ? Span{} : step_between(visible[first], visible[first + 1]);
    add_run(blocks,
            {rows, {static_cast<int64_t>(first), static_cast<int64_t>(end)}, visible[first], step});
    first = end;
  }
}

AttentionBlocks row_blocks(const at::Tensor& queries, const PackedRows* documents,
                           std::optional<int64_t> window) {
  const int64_t rows = queries.size(kRows);
  std::vector<int64_t> positions(static_cast<size_t>(queries.size(kPositions)));
  std::iota(positions.begin(), positions.end(), 0);
  AttentionBlocks blocks;
  if (documents == nullptr) {
    add_causal_blocks(blocks, {0, rows}, positions, positions, {.documents = {}, .window = window});
    return blocks;
  }
  TSR_CHECK(static_cast<int64_t>(documents->size()) == rows, "documents of ", documents->size(),
            " rows do not fit a batch of ", rows);
  for (int64_t row = 0; row < rows; ++row) {
    add_causal_blocks(blocks, {row, row + 1}, positions, positions,
                      {.documents = (*documents)[static_cast<size_t>(row)], .window = window});
  }
  return blocks;
}

at::ScalarType gradient_sum_dtype(at::ScalarType dtype) {
  return at::toOpMathType(dtype);
}

AttentionSum::AttentionSum(const at::Tensor& queries)
    : queries_(for_blocks(queries)), dtype_(queries.scalar_type()) {}

bool AttentionSum::is_first(const AttentionBlock& block) const {
  return std::ranges::none_of(added_, [&](const AttentionBlock& other) {
    return intersect(block.rows, other.rows) && intersect(block.queries, other.queries);
  });
}

void AttentionSum::add(const at::Tensor& keys, const at::Tensor& values,
                       const AttentionBlocks& blocks) {
  const at::Tensor k = for_blocks(keys);
  const at::Tensor v = for_blocks(values);
  const BlockKernel& kernel = block_kernel_for(queries_);
  for (const AttentionBlock& block : blocks) {
    const auto [output, log_sum_exp] =
        results_of(kernel,
                   {part(queries_, block.rows, block.queries), part(k, block.rows, block.keys),
                    part(v, block.rows, block.keys)},
                   block.shape);
    merge(block, output, log_sum_exp);
  }
}

void AttentionSum::merge(const AttentionBlock& block, const at::Tensor& output,
                         const at::Tensor& log_sum_exp) {
  const at::ScalarType dtype = gradient_sum_dtype(queries_.scalar_type());
  const bool covers_all = block.rows.size() == queries_.size(kRows) &&
                          block.queries.size() == queries_.size(kPositions);
  const bool is_first = this->is_first(block);
  added_.push_back(block);
  if (covers_all && is_first) {
    output_ = output.to(dtype);
    log_sum_exp_ = log_sum_exp.to(dtype);
    return;
  }
  if (!output_.defined()) {
    output_ = at::zeros_like(queries_, queries_.options().dtype(dtype));
    log_sum_exp_ = at::full(queries_.sizes().slice(0, 3), -std::numeric_limits<double>::infinity(),
                            output_.options());
  }
  const at::Tensor sum = part(output_, block.rows, block.queries);
  const at::Tensor total = part(log_sum_exp_, block.rows, block.queries);
  if (is_first) {
    sum.copy_(output);
    total.copy_(log_sum_exp);
    return;
  }
  // The weight is 1 where nothing was added before; the block itself has a key for each query.
  sum.lerp_(output.to(dtype), (log_sum_exp - total).sigmoid_().unsqueeze(-1));
  total.copy_(at::logaddexp(total, log_sum_exp));
}

AttentionKernel::Results AttentionSum::results() const {
  if (output_.defined()) return {output_.to(dtype_), log_sum_exp_};
  const at::TensorOptions options =
      queries_.options().dtype(gradient_sum_dtype(queries_.scalar_type()));
  return {
      at::zeros_like(queries_, queries_.options().dtype(dtype_)),
      at::full(queries_.sizes().slice(0, 3), -std::numeric_limits<double>::infinity(), options)};
}

AttentionGradients::AttentionGradients(const at::Tensor& gradient, const at::Tensor& queries,
                                       const AttentionKernel::Results& results)
    : gradient_(for_blocks(gradient)),
      queries_(for_blocks(queries)),
      output_(for_blocks(results.at(0))),
      log_sum_exp_(results.at(1)),
      dtype_(queries.scalar_type()),
      sum_(at::zeros_like(queries_,
                          queries.options().dtype(gradient_sum_dtype(queries.scalar_type())))) {}

void AttentionGradients::add(const at::Tensor& keys, const at::Tensor& values,
                             const AttentionBlocks& blocks, const at::Tensor& key_gradients,
                             const at::Tensor& value_gradients) {
  const at::Tensor all_keys = for_blocks(keys);
  const at::Tensor all_values = for_blocks(values);
  const BlockKernel& kernel = block_kernel_for(queries_);
  for (const AttentionBlock& block : blocks) {
    const auto of_queries = [&](const at::Tensor& x) { return part(x, block.rows, block.queries); };
    const auto of_keys = [&](const at::Tensor& x) { return part(x, block.rows, block.keys); };
    const auto [q, k, v] =
        gradients_of(kernel, of_queries(gradient_),
                     {of_queries(queries_), of_keys(all_keys), of_keys(all_values)},
                     {of_queries(output_), of_queries(log_sum_exp_)}, block.shape);
    of_queries(sum_).add_(q);
    of_keys(key_gradients).add_(k);
    of_keys(value_gradients).add_(v);
  }
}

at::Tensor AttentionGradients::queries() const {
  return sum_.to(dtype_);
}

AttentionKernel block_attention(AttentionBlocks blocks) {
  const auto shared = std::make_shared<const AttentionBlocks>(std::move(blocks));
  return {.forward =
              [shared](const AttentionInputs& in) {
                AttentionSum sum(in.q);
                sum.add(in.k, in.v, *shared);
                return sum.results();
              },
          .backward =
              [shared](const at::Tensor& gradient, const AttentionInputs& in,
                       const AttentionKernel::Results& results) {
                const at::TensorOptions options =
                    in.k.options().dtype(gradient_sum_dtype(in.k.scalar_type()));
                const at::Tensor k = at::zeros_like(in.k, options);
                const at::Tensor v = at::zeros_like(in.v, options);
                AttentionGradients gradients(gradient, in.q, results);
                gradients.add(in.k, in.v, *shared, k, v);
                return AttentionInputs{gradients.queries(), k.to(in.k.scalar_type()),
                                       v.to(in.v.scalar_type())};
              }};
}

}  // namespace tessera
