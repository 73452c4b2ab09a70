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

struct FromLocalOptions {
  /// The global shape. Unless it is given, every rank holds a piece of the same size.
  std::optional<std::vector<int64_t>> shape = std::nullopt;
  /// Compares the ranks' arguments, by one small sum per axis. Without it nothing is sent, and a
  /// rank whose tensor does not fit throws alone.
  bool check = true;
};

struct DistributeOptions {
  /// Whose values count: the rank at this index of every axis. Nothing: every rank has the same
  /// tensor already and keeps its part; nothing of it is sent.
  std::optional<GroupRank> src_data_rank = GroupRank{0};
};

/// A tensor that lies on the ranks of a mesh: this rank's part, and what it is a part of.
///
///   const DTensor weight = distribute_tensor(w, mesh, {Shard{0}});     // each rank has some rows
///   const DTensor whole = weight.redistribute({Replicate{}});          // and now all of them
///   const at::Tensor y = x.matmul(whole.to_local());                   // compute on plain tensors
///
/// A handle, as at::Tensor is: cheap to copy, and copies share their memory. Shape, mesh and
/// placements never change; the elements do, where init_ fills them or an operator writes to
/// to_local(). Operators act on local tensors, not on this.
///
/// Gradients flow through all of it. That of a tensor lies as the tensor does, but where the tensor
/// is Partial it is whole on every rank (gradient_placements).
class DTensor {
 public:
  /// **Collective** unless the options say otherwise. The part that this rank already has.
  static DTensor from_local(const at::Tensor& local, const DeviceMesh& mesh,
                            const Placements& placements, const FromLocalOptions& options = {});
  // Moving copies, so that what was moved from is still the same tensor.
  DTensor(const DTensor&) = default;
  DTensor& operator=(const DTensor&) = default;

  /// This rank's part. `grad_placements` says how the gradients of the ranks' parts are to be
  /// understood where that is not as gradient_placements() of this tensor: Partial where each rank
  /// goes on with a computation of its own. **Collective** in the backward pass then.
  at::Tensor to_local(const std::optional<Placements>& grad_placements = std::nullopt) const;
  /// **Collective.** The whole tensor, on every rank.
  at::Tensor full_tensor(const std::optional<Placements>& grad_placements = std::nullopt) const;
  /// **Collective.** The same tensor, placed otherwise; each step by the cheapest collective
  /// (redistribute_plan). Where nothing changes, it shares this one's memory.
  DTensor redistribute(const Placements& placements) const;

  const DeviceMesh& mesh() const& { return mesh_; }
  DeviceMesh mesh() && { return mesh_; }
  const Placements& placements() const& { return placements_; }
  Placements placements() && { return placements_; }
  /// Of the global tensor.
  const std::vector<int64_t>& shape() const& { return shape_; }
  std::vector<int64_t> shape() && { return shape_; }
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

/// **Collective.** A tensor cut and copied to the ranks of a mesh; its values are the source
/// rank's, its shape and dtype must be the same on all. Of a Partial value, the rank at index 0
/// holds the value and the others what changes nothing. No gradient flows back to the given tensor.
DTensor distribute_tensor(const at::Tensor& tensor, const DeviceMesh& mesh,
                          const Placements& placements, const DistributeOptions& options = {});

/// **Collective.** Many tensors at once, on one mesh or several: what can go together goes as one
/// operation, forwards and backwards.
std::vector<DTensor> redistribute(std::span<const DTensor> tensors,
                                  std::span<const Placements> placements);

/// The shape of the shard that a rank of the mesh has, this process's unless given, and where it
/// begins; an empty box for a rank outside. Missing placements mean Replicate.
Box compute_local_shape_and_global_offset(at::IntArrayRef global_shape, const DeviceMesh& mesh,
                                          const Placements& placements,
                                          std::optional<GlobalRank> rank = std::nullopt);
/// The same of a tensor.
Box get_local_shape_and_global_offset(const DTensor& dtensor,
                                      std::optional<GlobalRank> rank = std::nullopt);

}  // namespace tessera
