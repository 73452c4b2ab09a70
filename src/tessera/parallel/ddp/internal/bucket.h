#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/work.h"
#include "tessera/parallel/ddp/internal/report_exchange.h"

namespace tessera::ddp::detail {

/// A parameter whose gradient is reduced.
struct TrainedParameter {
  std::string name;
  at::Tensor tensor;
  at::Tensor original;  // Keeps the original sizes, strides, dtype and device; shares memory.
  size_t index = 0;     // In the reports.

  /// Whether it has another form than the original tensor.
  bool is_changed() const;
};

/// Gradients that are reduced together: one flat tensor, of which each gradient is a view.
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

  /// Copies the gradients, times the share, and starts their all-reduce. Reports which ones this
  /// rank has, and a refusal if it cannot reduce one.
  void start(RankReport& report);
  /// Waits for the sums; over NCCL the GPU waits instead of the host.
  void wait();
  /// After wait(): makes the sums the gradients.
  void give(const RankReport& own, const GroupReport& all) const;

 private:
  /// Whether the gradient can be a view into the bucket.
  bool has_views(size_t index) const;
  void take(size_t index, double share);

  std::vector<const TrainedParameter*> parameters_;
  Group group_;
  at::Tensor flat_;
  std::vector<at::Tensor> views_;
  size_t num_awaited_ = 0;
  std::optional<Work> work_;
};

}  // namespace tessera::ddp::detail
