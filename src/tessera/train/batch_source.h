#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "tessera/base/export.h"
#include "tessera/data/batches.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// Rows of a batch, along dimension 0 of all tensors.
struct BatchTensors {
  at::Tensor inputs;   // Of the first unit; e.g. tokens, [rows, positions] of int64.
  at::Tensor targets;  // Of the loss; e.g. the next tokens, of the same shape.
  /// The number of each token's document, [rows, positions] of int64, on the CPU; undefined if each
  /// row is one document.
  at::Tensor documents = {};
};

/// The source of batches for the training loop.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Number of rows per batch, over all ranks.
  virtual int64_t batch() const = 0;
  /// A range of rows of the batch of a step. Steps count from 0. The same step has the same batch
  /// on all ranks.
  virtual BatchTensors rows(int64_t step, Span rows) const = 0;
};

/// Rows of tokens, [rows, seq] of int64: each target is the token after its input. With the token
/// that ends a document, rows are packed documents, and the target of each end is kIgnoredTarget.
class TokenBatches final : public BatchSource {
 public:
  explicit TokenBatches(Batches batches, std::optional<int64_t> document_end = std::nullopt)
      : batches_(std::move(batches)), document_end_(document_end) {}

  /// Where the rows come from.
  const Batches& batches() const& { return batches_; }
  Batches batches() && { return std::move(batches_); }
  int64_t batch() const override { return batches_.options().batch; }
  BatchTensors rows(int64_t step, Span rows) const override;

 private:
  Batches batches_;
  std::optional<int64_t> document_end_;
};

/// Takes over the memory of the rows.
BatchTensors to_tensors(BatchRows rows);
/// The same; with the token that ends a document, rows are packed documents.
BatchTensors to_tensors(BatchRows rows, std::optional<int64_t> document_end);

}  // namespace tessera
