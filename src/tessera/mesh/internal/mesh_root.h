#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/comm/world.h"
#include "tessera/topology/layout.h"

namespace tessera::mesh::detail {

/// One axis through this rank: its ranks and their group.
struct MeshAxis {
  Layout line;               // A layout of one axis.
  std::vector<Group> group;  // One; none if this rank is outside the mesh.
};

/// Shared by all meshes of one origin: the world, the original axes, and the flattened axes.
/// Several threads may use it.
class MeshRoot {
 public:
  MeshRoot(WorldHandle world, Layout layout)
      : world_(std::move(world)), layout_(std::move(layout)) {}

  const WorldHandle& world() const { return world_; }
  const Layout& layout() const { return layout_; }

  std::optional<MeshAxis> find(std::string_view name) const;
  void add(const std::string& name, const MeshAxis& axis);
  /// The flattened axes within `layout`.
  AxisNames names_within(const Layout& layout) const;

 private:
  const WorldHandle world_;
  const Layout layout_;
  mutable std::mutex mutex_;
  std::map<std::string, MeshAxis, std::less<>> flattened_;
};

/// Whether every rank of `line` is in `layout`.
bool lies_within(const Layout& line, const Layout& layout);

}  // namespace tessera::mesh::detail
