#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/work.h"
#include "tessera/layer/parameter.h"

namespace tessera::ddp::detail {

/// Gradients that travel together: one flat tensor, of which each gradient is a view.
///
/// Behind the gradients travel a few numbers, which cost no message of their own: for each
/// parameter whether this rank has a gradient, then this rank's share, then whether it refuses.
class DdpBucket {
 public:
  /// `dtype` is that of the sums.
  DdpBucket(NamedParameters parameters, at::ScalarType dtype);

  const NamedParameters& parameters() const { return parameters_; }
  /// What is left to do before this bucket may start.
  size_t num_awaited() const { return num_awaited_; }
  void count_ready() { --num_awaited_; }
  bool is_started() const { return work_.has_value(); }

  /// Takes the gradients as they are, times the share, and starts to add them up. `refusal` is what
  /// this rank refuses, in an earlier bucket or in this one.
  void start(double share, std::string& refusal, const Group& group);
  /// Waits until the sums are there, and makes them the gradients.
  void finish();

  /// After finish: what all shares add up to, how exact such a sum is, and how many ranks refused,
  /// here or earlier.
  double sum_of_shares() const;
  double slack() const;
  double num_refusals() const;

 private:
  enum Tail : int64_t { kShare, kRefusals, kTailSize };

  /// Whether gradients can be the views themselves.
  bool has_views(size_t index) const;
  bool take(size_t index, double share);
  void give(size_t index) const;
  double tail(int64_t index) const;

  NamedParameters parameters_;
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
  at::Tensor tail_;            // The numbers behind the gradients.
  std::vector<bool> present_;  // Whether this rank had a gradient when the bucket was started.
  size_t num_awaited_ = 0;
  std::optional<Work> work_;
};

}  // namespace tessera::ddp::detail
