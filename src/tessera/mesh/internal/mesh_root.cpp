#include "tessera/mesh/internal/mesh_root.h"

#include <algorithm>

namespace tessera::mesh::detail {

std::optional<MeshAxis> MeshRoot::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto at = flattened_.find(name);
  return at == flattened_.end() ? std::nullopt : std::optional(at->second);
}

void MeshRoot::add(const std::string& name, const MeshAxis& axis) {
  const std::lock_guard lock(mutex_);
  flattened_.insert_or_assign(name, axis);
}

AxisNames MeshRoot::names_within(const Layout& layout) const {
  const std::lock_guard lock(mutex_);
  AxisNames names;
  for (const auto& [name, axis] : flattened_) {
    if (lies_within(axis.line, layout)) names.push_back(name);
  }
  return names;
}

bool lies_within(const Layout& line, const Layout& layout) {
  return std::ranges::all_of(line.ranks(), [&](GlobalRank rank) { return layout.contains(rank); });
}

}  // namespace tessera::mesh::detail
