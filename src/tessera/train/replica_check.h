#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/mesh/realize.h"
#include "tessera/optim/optimizer.h"
#include "tessera/tensor/parameter.h"

namespace tessera TSR_API {

/// A tensor that other ranks may hold as well.
struct ReplicaTensor {
  std::string name;   // The same on all ranks that hold parts of it.
  at::Tensor tensor;  // This rank's part.
  Part part;          // Which elements of the full tensor this rank has.
};
/// The tensors that are compared.
using ReplicaTensors = std::vector<ReplicaTensor>;

/// Parameters and the state of their optimizer, as "NAME" and "NAME.KIND".
ReplicaTensors replica_tensors(const Parameters& parameters, const Optimizer& optimizer);

/// Finds silent corruption: compares tensors between the ranks that should hold the same bits.
///
/// Which ranks these are follows from the tensors' parts: in each group of the plan, the members
/// that hold the same elements of a tensor of the same name. So it needs no list of strategies.
/// A check reads every tensor once and sends two numbers per set of ranks.
class ReplicaCheck {
 public:
  /// **Collective** over all ranks. `world` has all ranks of the plan.
  ReplicaCheck(const RealizedPlan& plan, const Group& world, ReplicaTensors tensors);

  /// **Collective.** If replicas differ, all ranks throw the same NumericError. It names the first
  /// rank that differs from the majority, and the first tensor there. `after` says when, e.g.
  /// "step 12".
  void check(const std::string& after) const;

 private:
  /// Members of a group that hold the same tensors.
  struct Replicas {
    std::vector<int64_t> members;  // Group ranks.
    std::vector<size_t> tensors;   // Of this rank, in the order of their keys; empty elsewhere.
  };
  struct Compared {
    Group group;
    std::vector<Replicas> sets;
  };
  /// A tensor that differs. The ranks choose the largest.
  struct Finding;

  static std::vector<Replicas> replicas_in(const Group& group, const std::vector<uint64_t>& keys);
  std::vector<int64_t> digests() const;
  void compare(const Compared& compared, const std::vector<int64_t>& digests,
               std::vector<Finding>& findings) const;
  Finding first_in(const Compared& compared, size_t set, const std::vector<int64_t>& digests) const;

  ReplicaTensors tensors_;
  Group world_;
  std::vector<Compared> compared_;
};

}  // namespace tessera
