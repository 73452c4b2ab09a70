#pragma once

#include <future>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/train/batch_source.h"

namespace tessera TSR_API {

/// A source that reads the rows of the next step on a thread of its own, during the step before.
/// An error in reading is thrown when the step asks for the rows. For one thread at a time.
class ReadAhead final : public BatchSource {
 public:
  /// `source` must outlive this. One thread at a time reads it, but not always the same.
  explicit ReadAhead(const BatchSource& source) : source_(source) {}

  int64_t batch() const override { return source_.batch(); }
  BatchTensors rows(int64_t step, Span rows) const override;

 private:
  struct Reading {
    int64_t step;
    Span rows;
    std::future<BatchTensors> tensors;
  };

  const BatchSource& source_;
  mutable std::optional<Reading> next_;
};

}  // namespace tessera
