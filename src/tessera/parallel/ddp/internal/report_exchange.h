#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/work.h"

namespace tessera::ddp::detail {

/// What this rank reports in a reduction.
struct RankReport {
  double share = 1;
  int64_t pass = 1;                 // Exact up to 2^53.
  bool failed = false;              // One of its backward passes has failed.
  std::string refusal = "";         // Why it cannot reduce a gradient; "" if it can.
  std::vector<bool> present = {};   // By parameter: whether it has a gradient.
  std::vector<bool> replaced = {};  // By parameter: whether it is no longer the original tensor.
};

/// What all ranks have reported in a reduction.
struct GroupReport {
  std::vector<bool> present = {};   // By parameter: whether any rank has a gradient.
  std::vector<bool> replaced = {};  // By parameter: whether it was replaced on any rank.
  double sum_of_shares = 0;
  bool refused = false;              // By any rank.
  std::vector<int64_t> passes = {};  // By group rank, as `failed`.
  std::vector<bool> failed = {};
};

/// Exchanges the reports of a reduction. They are sums of numbers on the CPU, so no rank waits for
/// its GPU.
class ReportExchange {
 public:
  /// **Collective.** Returns without waiting.
  ReportExchange(const RankReport& own, const Group& group);
  /// Waits for the reports of all ranks.
  GroupReport wait() &&;

 private:
  size_t num_parameters_;
  size_t num_ranks_;
  Work work_;
};

}  // namespace tessera::ddp::detail
