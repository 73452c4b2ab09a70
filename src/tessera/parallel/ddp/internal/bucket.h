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
  at::Tensor original;    // Keeps the original sizes, strides, dtype and device; shares memory.
  bool replaced = false;  // Another tensor got the gradient of this pass instead.

  /// Whether it is no longer the original tensor.
  bool is_changed() const;
};

/// What this rank reports with a reduction.
struct RankReport {
  double share = 1;
  PassReport pass = {.pass = 1};
  std::string refusal = "";  // Why it cannot reduce a gradient; "" if it can.
};

/// Gradients that are reduced together: one flat tensor, of which each gradient is a view.
///
/// A few numbers follow the gradients in the same tensor, so they need no collective of their own:
/// per parameter whether this rank has a gradient, then the sum of the shares, the number of ranks
/// that refuse, and one PassReport per rank.
class DdpBucket {
 public:
  /// `dtype` is that of the sums, which `group` computes. The parameters outlive the bucket.
  DdpBucket(std::vector<const TrainedParameter*> parameters, at::ScalarType dtype,
            const Group& group);

  const std::vector<const TrainedParameter*>& parameters() const { return parameters_; }
  /// How many gradients are missing before this bucket can start.
  size_t num_awaited() const { return num_awaited_; }
  void count_ready() { --num_awaited_; }
  bool is_started() const { return work_.has_value(); }

  /// Copies the gradients, times the share, and starts their all-reduce. Sets report.refusal if
  /// this rank cannot reduce one.
  void start(RankReport& report);
  /// Waits for the sums and makes them the gradients.
  void finish();

  /// After finish(): what all ranks have reported, in this or an earlier bucket of the pass. Waits
  /// for the device.
  struct Outcome {
    double sum_of_shares = 0;
    int64_t num_refusals = 0;
    std::vector<int64_t> pass_codes = {};  // By group rank.
  };
  Outcome outcome() const;
  /// Tolerance for the sum of the shares.
  double slack() const;
  /// After finish(): the first parameter that was replaced on any rank; null if there is none.
  const TrainedParameter* first_changed() const;

 private:
  /// Whether the gradient can be a view into the bucket.
  bool has_views(size_t index) const;
  bool take(size_t index, double share);
  void give(size_t index, double num_gradients) const;
  std::vector<double> tail() const;

  std::vector<const TrainedParameter*> parameters_;
  Group group_;
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
  at::Tensor tail_;            // The numbers behind the gradients.
  std::vector<bool> present_;  // Whether this rank had a gradient when the bucket was started.
  size_t num_awaited_ = 0;
  std::optional<Work> work_;
};

}  // namespace tessera::ddp::detail
