#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/work.h"
#include "tessera/parallel/ddp/internal/pass_code.h"
#include "tessera/tensor/parameter.h"

namespace tessera::ddp::detail {

/// A parameter whose gradient is reduced.
struct TrainedParameter {
  std::string name;
  at::Tensor tensor;
  at::Tensor original;    // Its sizes, strides, dtype and device when it was given; shares memory.
  bool replaced = false;  // Another tensor got the gradient of this pass in its place.

  /// Whether it is another tensor than the one that was given.
  bool is_changed() const;
};

/// What this rank says of itself in a reduction.
struct RankReport {
  double share = 1;
  PassReport pass = {.pass = 1};
  std::string refusal = "";  // What it cannot reduce; "" where that is nothing.
};

/// Gradients that travel together: one flat tensor, of which each gradient is a view.
///
/// Behind the gradients travel a few numbers, which cost no message of their own: for each
/// parameter whether this rank has a gradient, then the sum of the shares, the number of ranks that
/// refuse, and a PassReport of each rank.
class DdpBucket {
 public:
  /// `dtype` is that of the sums. The parameters outlive the bucket.
  DdpBucket(std::vector<const TrainedParameter*> parameters, at::ScalarType dtype,
            int64_t num_ranks);

  const std::vector<const TrainedParameter*>& parameters() const { return parameters_; }
  /// What is left to do before this bucket may start.
  size_t num_awaited() const { return num_awaited_; }
  void count_ready() { --num_awaited_; }
  bool is_started() const { return work_.has_value(); }

  /// Takes the gradients as they are, times the share, and starts to add them up. Adds to the
  /// report what this rank cannot reduce.
  void start(RankReport& report, const Group& group);
  /// Waits until the sums are there, and makes them the gradients.
  void finish();

  /// After finish: what all ranks have said, here or in an earlier bucket of the pass. Copies it
  /// from the device.
  struct Outcome {
    double sum_of_shares = 0;
    int64_t num_refusals = 0;
    std::vector<int64_t> pass_codes = {};  // By group rank.
  };
  Outcome outcome() const;
  /// How exact the sum of the shares is.
  double slack() const;
  /// After finish: the first parameter that is another tensor on some rank; null where none is.
  const TrainedParameter* first_changed() const;

 private:
  /// Whether gradients can be the views themselves.
  bool has_views(size_t index) const;
  bool take(size_t index, double share);
  void give(size_t index, double num_gradients) const;
  std::vector<double> tail() const;

  std::vector<const TrainedParameter*> parameters_;
  int64_t num_ranks_;
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
  at::Tensor tail_;            // The numbers behind the gradients.
  std::vector<bool> present_;  // Whether this rank had a gradient when the bucket was started.
  size_t num_awaited_ = 0;
  std::optional<Work> work_;
};

}  // namespace tessera::ddp::detail
