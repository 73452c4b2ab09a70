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

/// One axis through this rank: its ranks, and the group in which they talk.
struct MeshAxis {
  Layout line;               // Of one axis.
  std::vector<Group> group;  // One; none where this rank is outside the mesh.
};

/// What a mesh shares with every mesh that is cut from it: the world, the axes with which it began,
/// and the axes that were flattened since. May be used from several threads.
class MeshRoot {
 public:
  MeshRoot(WorldHandle world, Layout layout)
      : world_(std::move(world)), layout_(std::move(layout)) {}

  const WorldHandle& world() const { return world_; }
  const Layout& layout() const { return layout_; }

  std::optional<MeshAxis> find(std::string_view name) const;
  void add(const std::string& name, const MeshAxis& axis);
  /// The flattened axes that lie within `layout`.
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
