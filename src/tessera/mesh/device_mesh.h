#pragma once

#include <c10/util/ArrayRef.h>

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/comm/options.h"
#include "tessera/comm/world.h"
#include "tessera/topology/layout.h"
#include "tessera/topology/rank.h"

namespace tessera::mesh::detail {
class MeshRoot;
struct MeshAxis;
}  // namespace tessera::mesh::detail

namespace tessera TSR_API {

/// An axis by its name, by an enumerator such as olmo::MeshDimName::tp, or by its index.
class AxisKey {
 public:
  // NOLINTBEGIN(google-explicit-constructor)
  AxisKey(const std::convertible_to<std::string_view> auto& name) : key_(std::string_view(name)) {}
  AxisKey(std::integral auto place) : key_(static_cast<int64_t>(place)) {}
  template <class Name>
    requires std::is_enum_v<Name>
  AxisKey(Name name) : key_(std::string_view(to_string(name))) {}
  // NOLINTEND(google-explicit-constructor)

  /// Null if the axis is given by its index. The name must outlive this object.
  const std::string_view* name() const { return std::get_if<std::string_view>(&key_); }
  /// The index of the axis in the mesh; null if it is given by its name.
  const int64_t* place() const { return std::get_if<int64_t>(&key_); }

 private:
  std::variant<std::string_view, int64_t> key_;
};

/// Group options by axis name. Other axes have the defaults.
using AxisOptions = std::map<std::string, GroupOptions>;

/// A Layout with live groups: one per axis, made with the mesh.
///
///   const DeviceMesh mesh(world, Layout::row_major({{"pp", 2}, {"dp", 2}, {"tp", 2}}));
///   all_reduce(x, mesh.get_group("tp")).wait();
///   const DeviceMesh model = mesh.slice({"pp", "tp"}).flatten("model");   // one axis of 4 ranks
///   mesh.get_group("model");                                              // the parent knows it
///
/// A value: cheap to copy and immutable, except that flatten() adds a name to all meshes of the
/// same origin. It does not keep its world open; StateError for new groups in a closed world. A
/// rank's group rank is its index on the axis, even if the ranks were listed unsorted.
///
/// Functions that make groups are **collective**: all ranks of the mesh call them, in the same
/// order. Other ranks may call them as well; for them is_member() is false, and functions that need
/// this rank's coordinate throw StateError. Other errors are ConfigErrors.
class DeviceMesh {
 public:
  /// **Collective.** Every rank of the layout must be in the world.
  DeviceMesh(const WorldHandle& world, Layout layout, const AxisOptions& options = {});
  /// A mesh of one axis over an existing group. Local.
  static DeviceMesh from_group(const WorldHandle& world, const Group& group,
                               const std::string& axis);
  /// A mesh over existing groups, one per axis, with the layout's ranks in the layout's order.
  /// Local. Ranks outside the layout need no groups.
  static DeviceMesh from_groups(const WorldHandle& world, Layout layout, std::vector<Group> groups);
  /// Moving copies, so that a moved-from object is still the same mesh.
  DeviceMesh(const DeviceMesh&) = default;
  DeviceMesh& operator=(const DeviceMesh&) = default;

  /// The grid of ranks, made of the mesh's own axes.
  const Layout& layout() const& { return layout_; }
  Layout layout() && { return layout_; }
  /// Of its own axes, in their order.
  AxisNames axis_names() const { return layout_.axis_names(); }
  /// The number of its own axes.
  int64_t ndim() const { return static_cast<int64_t>(layout_.axes().size()); }
  /// The sizes of its own axes, in their order.
  std::vector<int64_t> shape() const;
  /// The number of ranks.
  int64_t size() const { return layout_.size(); }
  int64_t size(const AxisKey& axis) const;

  /// Whether this rank of the world is in the mesh.
  bool contains(GlobalRank rank) const { return layout_.contains(rank); }
  /// Whether this process's rank is in the mesh.
  bool is_member() const { return contains(get_rank()); }
  /// This process's rank in the world.
  GlobalRank get_rank() const;
  /// This rank's index on every axis; empty outside the mesh.
  std::optional<Coordinate> get_coordinate() const;

  /// This rank's index on the axis, which is its rank in the axis's group. Here and below, the axis
  /// may be a flattened one within the mesh. Without an axis, the mesh must have exactly one.
  GroupRank get_local_rank(const AxisKey& axis) const;
  GroupRank get_local_rank() const;
  /// The group along the axis that contains this rank.
  Group get_group(const AxisKey& axis) const;
  Group get_group() const;
  /// The groups of all axes, in their order.
  std::vector<Group> get_all_groups() const;

  /// The sub-mesh of these axes, in this order, that contains this rank. Local: it uses the groups
  /// of this mesh.
  DeviceMesh slice(const AxisNames& names) const;
  /// slice() in PyTorch's notation: mesh["tp"], mesh[{"dp", "tp"}].
  DeviceMesh operator[](const AxisNames& names) const { return slice(names); }
  DeviceMesh operator[](const std::convertible_to<AxisKey> auto& axis) const { return line(axis); }
  /// **Collective.** The mesh as one axis, the first axis slowest; the default name is "dp_tp".
  /// Every mesh of this origin that contains the axis then knows the name. Calling it again returns
  /// the same axis.
  DeviceMesh flatten(const std::string& name = "",
                     const std::optional<GroupOptions>& options = std::nullopt) const;
  /// The flattened axis of this name in any mesh of this origin; empty if there is none.
  std::optional<DeviceMesh> flattened(std::string_view name) const;
  /// **Collective.** Splits one axis into several, the first part slowest; `options` are for the
  /// parts.
  DeviceMesh split(const AxisKey& axis, const AxisSizes& parts,
                   const AxisOptions& options = {}) const;
  /// One mesh with the axes of several meshes of the same origin, e.g. slices and flattened or
  /// split meshes. Local.
  static DeviceMesh concatenate(std::span<const DeviceMesh> meshes);

  /// "DeviceMesh(pp=2, dp=2, tp=2) over ranks 0-7".
  std::string to_string() const;
  friend std::ostream& operator<<(std::ostream& out, const DeviceMesh& mesh) {
    return out << mesh.to_string();
  }
  /// Compares axes, ranks at every coordinate, lanes and options.
  friend TSR_API bool operator==(const DeviceMesh& a, const DeviceMesh& b);

 private:
  DeviceMesh(std::shared_ptr<mesh::detail::MeshRoot> root, Layout layout,
             std::vector<Group> groups);

  /// The index of the axis among this mesh's own.
  size_t index_of(const AxisKey& axis) const;
  std::optional<size_t> find_own(const AxisKey& axis) const;
  /// The axis through this rank, own or flattened.
  mesh::detail::MeshAxis at(const AxisKey& axis) const;
  DeviceMesh line(const AxisKey& axis) const;
  std::string only_axis() const;
  void check_member() const;
  [[noreturn]] void refuse_unknown(std::string_view axis) const;

  std::shared_ptr<mesh::detail::MeshRoot> root_;  // Shared by all meshes of one origin.
  Layout layout_;
  std::vector<Group> groups_;  // One per axis; none if this rank is outside.
};

/// **Collective.** A mesh over ranks 0, 1, …, the last axis fastest. For other ranks use
/// Layout::from_ranks.
DeviceMesh init_device_mesh(const WorldHandle& world, c10::IntArrayRef shape,
                            const AxisNames& names, const AxisOptions& options = {});

}  // namespace tessera
