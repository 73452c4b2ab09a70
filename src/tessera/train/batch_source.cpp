#include "tessera/train/batch_source.h"

#include <ATen/ops/from_blob.h>

#include <memory>
#include <utility>

#include "tessera/data/documents.h"
#include "tessera/layer/tokens.h"

namespace tessera {
namespace {

// The tensor keeps the vector alive.
at::Tensor tensor_of(std::vector<int64_t> numbers, at::IntArrayRef shape) {
  auto owner = std::make_shared<std::vector<int64_t>>(std::move(numbers));
  int64_t* const data = owner->data();
  return at::from_blob(data, shape, [owner = std::move(owner)](void*) {}, at::kLong);
}

}  // namespace

BatchTensors to_tensors(BatchRows rows) {
  const std::array<int64_t, 2> shape{rows.rows, rows.seq};
  return {.inputs = tensor_of(std::move(rows.inputs), shape),
          .targets = tensor_of(std::move(rows.targets), shape)};
}

BatchTensors to_tensors(BatchRows rows, std::optional<int64_t> document_end) {
  if (!document_end) return to_tensors(std::move(rows));
  std::vector<int64_t> documents = document_numbers(rows, *document_end);
  ignore_document_ends(rows, *document_end, kIgnoredTarget);
  const std::array<int64_t, 2> shape{rows.rows, rows.seq};
  BatchTensors tensors = to_tensors(std::move(rows));
  tensors.documents = tensor_of(std::move(documents), shape);
  return tensors;
}

BatchTensors TokenBatches::rows(int64_t step, Span rows) const {
  return to_tensors(batches_.rows(step, rows.begin, rows.end), document_end_);
}

}  // namespace tessera
