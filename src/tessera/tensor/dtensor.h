#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/tensor/placements.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// What the local tensors are together.
struct FromLocalOptions {
  /// The global shape. Default: every rank holds a piece of the same size.
  std::optional<std::vector<int64_t>> shape = std::nullopt;
  /// Compares the arguments of all ranks, with one small all-reduce per axis. Without it nothing is
  /// sent, and only a rank whose tensor does not fit throws.
  bool check = true;
};

/// Where the values come from.
struct DistributeOptions {
  /// The rank whose values are used, as its index on every axis. Empty: every rank already has the
  /// same tensor and keeps its part; nothing is sent.
  std::optional<GroupRank> src_data_rank = GroupRank{0};
};

/// A tensor that is distributed over the ranks of a mesh: this rank's part and the global layout.
///
///   const DTensor weight = distribute_tensor(w, mesh, {Shard{0}});     // each rank has some rows
///   const DTensor whole = weight.redistribute({Replicate{}});          // now each has all rows
///   const at::Tensor y = x.matmul(whole.to_local());                   // compute on plain tensors
///
/// A handle like at::Tensor: cheap to copy, and copies share memory. Shape, mesh and placements
/// never change; init_ and operators on to_local() change the elements. Use operators on local
/// tensors, not on a DTensor.
///
/// All functions are differentiable. The gradient has the placements of the tensor, but is
/// replicated along axes where the tensor is Partial (gradient_placements).
class DTensor {
 public:
  /// **Collective** unless the options say otherwise. Wraps the part that this rank already has.
  static DTensor from_local(const at::Tensor& local, const DeviceMesh& mesh,
                            const Placements& placements, const FromLocalOptions& options = {});
  // Moving copies, so that a moved-from object is still the same tensor.
  DTensor(const DTensor&) = default;
  DTensor& operator=(const DTensor&) = default;

  /// This rank's part. `grad_placements` are the placements of its gradient; the default is
  /// gradient_placements() of this tensor. Use Partial if each rank continues with a different
  /// computation. With `grad_placements` the backward pass is **collective**.
  at::Tensor to_local(const std::optional<Placements>& grad_placements = std::nullopt) const;
  /// **Collective.** The full tensor, on every rank.
  at::Tensor full_tensor(const std::optional<Placements>& grad_placements = std::nullopt) const;
  /// **Collective.** The same tensor with other placements, by the cheapest collectives
  /// (redistribute_plan). If nothing changes, it shares this tensor's memory.
  DTensor redistribute(const Placements& placements) const;

  /// The ranks that it is distributed over.
  const DeviceMesh& mesh() const& { return mesh_; }
  DeviceMesh mesh() && { return mesh_; }
  /// One per mesh axis, with non-negative dimensions.
  const Placements& placements() const& { return placements_; }
  Placements placements() && { return placements_; }
  /// Shape of the global tensor.
  const std::vector<int64_t>& shape() const& { return shape_; }
  std::vector<int64_t> shape() && { return shape_; }
  /// Of the elements.
  at::ScalarType dtype() const { return local_.scalar_type(); }
  /// "DTensor((8,4) Float, S(0), R) on DeviceMesh(dp=2, tp=2) over ranks 0-3".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const DTensor& tensor);

 private:
  DTensor(at::Tensor local, DeviceMesh mesh, Placements placements, std::vector<int64_t> shape);
  friend DTensor distribute_tensor(const at::Tensor&, const DeviceMesh&, const Placements&,
                                   const DistributeOptions&);
  friend std::vector<DTensor> redistribute(std::span<const DTensor>, std::span<const Placements>);

  at::Tensor local_;
  DeviceMesh mesh_;
  Placements placements_;
  std::vector<int64_t> shape_;
};

/// **Collective.** Distributes the source rank's tensor over the ranks of a mesh; shape and dtype
/// must be the same on all. If it is Partial, the rank at index 0 holds the value and the others
/// the neutral element. No gradient flows back to the given tensor.
DTensor distribute_tensor(const at::Tensor& tensor, const DeviceMesh& mesh,
                          const Placements& placements, const DistributeOptions& options = {});

/// **Collective.** Redistributes many tensors, on one mesh or several. Collectives are coalesced
/// if possible, in the forward and in the backward pass.
std::vector<DTensor> redistribute(std::span<const DTensor> tensors,
                                  std::span<const Placements> placements);

/// Shape and offset of the shard of a rank, by default this process's; an empty box for a rank
/// outside the mesh. Missing placements mean Replicate.
Box compute_local_shape_and_global_offset(at::IntArrayRef global_shape, const DeviceMesh& mesh,
                                          const Placements& placements,
                                          std::optional<GlobalRank> rank = std::nullopt);
/// The same for a tensor.
Box get_local_shape_and_global_offset(const DTensor& dtensor,
                                      std::optional<GlobalRank> rank = std::nullopt);

}  // namespace tessera
