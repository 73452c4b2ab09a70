#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/base/export.h"
#include "tessera/layer/parameter.h"

namespace tessera TSR_API {

/// Consecutive rows of the global batch.
struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  friend bool operator==(const RowRange&, const RowRange&) = default;
};

/// What the training loop needs of a strategy: a model that is spread over ranks in some way, and
/// of which this process holds a part. The loop itself knows nothing of ranks.
class Engine {
 public:
  virtual ~Engine() = default;

  /// Which rows of a global batch of `batch` rows this rank is to be given.
  virtual RowRange rows(int64_t batch) const = 0;
  /// Where inputs and targets are wanted.
  virtual at::Device device() const = 0;
  /// **Collective.** Forward and backward of one global batch: adds the gradient of its mean loss
  /// to those of parameters(), and gives that loss, the same on all ranks.
  virtual at::Tensor train_step(const at::Tensor& inputs, const at::Tensor& targets) = 0;
  /// **Collective.** The mean loss of a global batch, without gradients.
  virtual at::Tensor evaluate(const at::Tensor& inputs, const at::Tensor& targets) = 0;
  /// **Collective.** The 2-norm of the gradients of the whole model, the same on all ranks. It may
  /// be infinite or no number.
  virtual double grad_norm() = 0;
  /// What this rank's optimizer updates.
  virtual NamedParameters parameters() const = 0;
};

}  // namespace tessera
