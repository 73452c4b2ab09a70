#include "tessera/mesh/device_mesh.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/mesh/internal/mesh_root.h"
#include "tessera/topology/rank_text.h"

namespace tessera {

using namespace mesh::detail;

namespace {

constexpr size_t kRoomForRanks = 60;

AxisNames names_of(const AxisSizes& parts) {
  AxisNames names;
  for (const AxisSize& part : parts) names.push_back(part.name);
  return names;
}

GroupOptions options_of(const std::string& axis, const AxisOptions& options) {
  const auto given = options.find(axis);
  GroupOptions found = given == options.end() ? GroupOptions{} : given->second;
  if (found.name.empty()) found.name = concat("mesh_", axis);
  return found;
}

void check_options(const AxisNames& axes, const AxisOptions& options) {
  for (const auto& [name, unused] : options) {
    TSR_CHECK(std::ranges::find(axes, name) != axes.end(), "got options for axis '", name,
              "', but the axes are ", join(axes, ", "), did_you_mean(name, axes));
  }
}

void check_layout(const Layout& layout, int64_t world_size) {
  TSR_CHECK(!layout.axes().empty(), "a mesh needs at least 1 axis, but got none");
  const GlobalRank last = layout.largest_rank();
  TSR_CHECK(last.value < world_size, "a mesh over ", layout, " has ", layout.size(),
            " ranks up to rank ", last, ", but the world has ranks 0 to ", world_size - 1,
            "; choose smaller axes or start more ranks");
}

// The groups of these axes that this rank is in. Every rank makes them in the order of the axes, so
// that ranks cannot deadlock; errors are the same on all of them.
std::vector<Group> make_groups(const WorldHandle& world, const Layout& layout,
                               const AxisNames& axes, const AxisOptions& options) {
  check_options(axes, options);
  if (!layout.contains(world.rank())) return {};
  std::vector<GroupRequest> requests;
  for (const std::string& axis : axes) {
    requests.push_back({layout.group_of(world.rank(), {axis}), options_of(axis, options)});
  }
  return world.make_groups(requests);
}

// The group of a layout of one axis, not connected; for comparison only.
std::vector<Group> handles_of(const WorldHandle& world, const Layout& line,
                              const GroupOptions& options) {
  if (!line.contains(world.rank())) return {};
  return {world.group(line.ranks(), options)};
}

void check_group(const Group& group, const Layout& layout, GlobalRank rank,
                 const std::string& axis) {
  const RankGroup wanted = layout.group_of(rank, {axis});
  TSR_CHECK(std::ranges::equal(group.ranks(), wanted), "group ", group.name(), " has ranks ",
            join(group.ranks(), ","), ", but axis '", axis, "' of ", layout, " has ",
            join(wanted, ","), " through rank ", rank,
            "; pass each axis its own group, with its ranks in the mesh's order");
}

}  // namespace

DeviceMesh::DeviceMesh(std::shared_ptr<MeshRoot> root, Layout layout, std::vector<Group> groups)
    : root_(std::move(root)), layout_(std::move(layout)), groups_(std::move(groups)) {}

DeviceMesh::DeviceMesh(const WorldHandle& world, Layout layout, const AxisOptions& options)
    : root_(std::make_shared<MeshRoot>(world, layout)), layout_(std::move(layout)) {
  check_layout(layout_, world.size());
  groups_ = make_groups(world, layout_, axis_names(), options);
}

DeviceMesh DeviceMesh::from_group(const WorldHandle& world, const Group& group,
                                  const std::string& axis) {
  return from_groups(world, Layout::from_ranks({{axis, group.size()}}, group.ranks()), {group});
}

DeviceMesh DeviceMesh::from_groups(const WorldHandle& world, Layout layout,
                                   std::vector<Group> groups) {
  check_layout(layout, world.size());
  auto root = std::make_shared<MeshRoot>(world, layout);
  if (!layout.contains(world.rank())) return {std::move(root), std::move(layout), {}};
  const AxisNames names = layout.axis_names();
  TSR_CHECK(groups.size() == names.size(), "got ", groups.size(), " groups for the ", names.size(),
            " axes of ", layout, "; pass one for each of ", join(names, ", "));
  for (size_t i = 0; i < names.size(); ++i) check_group(groups[i], layout, world.rank(), names[i]);
  return {std::move(root), std::move(layout), std::move(groups)};
}

std::vector<int64_t> DeviceMesh::shape() const {
  std::vector<int64_t> sizes;
  for (const Axis& axis : layout_.axes()) sizes.push_back(axis.size());
  return sizes;
}

int64_t DeviceMesh::size(const AxisKey& axis) const {
  const std::optional<size_t> own = find_own(axis);
  return own ? layout_.axes()[*own].size() : at(axis).line.size();
}

GlobalRank DeviceMesh::get_rank() const {
  return root_->world().rank();
}

std::optional<Coordinate> DeviceMesh::get_coordinate() const {
  return is_member() ? std::optional(layout_.coordinate(get_rank())) : std::nullopt;
}

GroupRank DeviceMesh::get_local_rank(const AxisKey& axis) const {
  return GroupRank{at(axis).line.coordinate(get_rank())[0]};
}
GroupRank DeviceMesh::get_local_rank() const {
  return get_local_rank(only_axis());
}

Group DeviceMesh::get_group(const AxisKey& axis) const {
  return at(axis).group[0];
}
Group DeviceMesh::get_group() const {
  return get_group(only_axis());
}

std::vector<Group> DeviceMesh::get_all_groups() const {
  check_member();
  return groups_;
}

DeviceMesh DeviceMesh::slice(const AxisNames& names) const {
  TSR_CHECK(!names.empty(), "slice of ", *this, " needs at least 1 axis, but got none");
  check_member();
  std::vector<Layout> lines;
  std::vector<Group> groups;
  for (const std::string& name : names) {
    const MeshAxis axis = at(name);
    lines.push_back(axis.line);
    groups.push_back(axis.group[0]);
  }
  return {root_, Layout::concatenate(lines, get_rank()), std::move(groups)};
}

DeviceMesh DeviceMesh::flatten(const std::string& name,
                               const std::optional<GroupOptions>& options) const {
  const std::string chosen = name.empty() ? join(axis_names(), "_") : name;
  const Layout flat = layout_.flatten(axis_names(), chosen);
  const bool is_own = layout_ == flat;
  std::optional<MeshAxis> axis = is_own ? MeshAxis{layout_, groups_} : root_->find(chosen);
  if (!axis) {
    TSR_CHECK(!layout_.has_axis(chosen) && !root_->layout().has_axis(chosen), *this,
              " cannot be flattened into '", chosen,
              "', because its mesh has an axis of that name; choose another name");
    axis = {flat, make_groups(root_->world(), flat, {chosen},
                              {{chosen, options.value_or(GroupOptions{})}})};
    root_->add(chosen, *axis);
  }
  TSR_CHECK(axis->line == flat, *this, " cannot be flattened into '", chosen,
            "', which was made from other axes: ", axis->line, "; choose another name");
  TSR_CHECK(!options || axis->group == handles_of(root_->world(), flat, *options), *this,
            " was flattened into '", chosen,
            "' with another lane or options; choose another name, or pass the same options");
  return {root_, axis->line, axis->group};
}

std::optional<DeviceMesh> DeviceMesh::flattened(std::string_view name) const {
  const std::optional<MeshAxis> axis = root_->find(name);
  return axis ? std::optional(DeviceMesh(root_, axis->line, axis->group)) : std::nullopt;
}

DeviceMesh DeviceMesh::split(const AxisKey& axis, const AxisSizes& parts,
                             const AxisOptions& options) const {
  const size_t index = index_of(axis);
  const std::string name = layout_.axes()[index].name();
  TSR_CHECK(!parts.empty(), "axis '", name, "' must be split into at least 1 part, but got none");
  for (const AxisSize& part : parts) {
    TSR_CHECK(!root_->find(part.name), "a part of axis '", name, "' cannot be named '", part.name,
              "', because a flattened axis has that name; choose another name");
  }
  Layout cut = layout_.split(name, parts);
  const auto made = make_groups(root_->world(), cut, names_of(parts), options);
  std::vector<Group> groups = groups_;
  if (is_member()) {
    const auto place = groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(index));
    groups.insert(place, made.begin(), made.end());
  }
  return {root_, std::move(cut), std::move(groups)};
}

DeviceMesh DeviceMesh::concatenate(std::span<const DeviceMesh> meshes) {
  TSR_CHECK(!meshes.empty(), "concatenate needs at least 1 mesh, but got none");
  std::vector<Layout> layouts;
  std::vector<Group> groups;
  for (const DeviceMesh& mesh : meshes) {
    TSR_CHECK(
        mesh.root_ == meshes[0].root_, meshes[0], " and ", mesh,
        " cannot be concatenated, because they have no common origin; slice both from one mesh");
    mesh.check_member();
    layouts.push_back(mesh.layout_);
    groups.insert(groups.end(), mesh.groups_.begin(), mesh.groups_.end());
  }
  return {meshes[0].root_, Layout::concatenate(layouts, meshes[0].get_rank()), std::move(groups)};
}

std::string DeviceMesh::to_string() const {
  std::vector<std::string> axes;
  for (const Axis& axis : layout_.axes()) axes.push_back(concat(axis.name(), "=", axis.size()));
  return concat("DeviceMesh(", join(axes, ", "), ") over ranks ",
                short_list(layout_.ranks(), kRoomForRanks));
}

bool operator==(const DeviceMesh& a, const DeviceMesh& b) {
  return a.layout_ == b.layout_ && a.groups_ == b.groups_;
}

std::optional<size_t> DeviceMesh::find_own(const AxisKey& axis) const {
  if (const int64_t* const index = axis.place()) {
    TSR_CHECK(0 <= *index && *index < ndim(), *this, " has no axis ", *index, "; choose 0 to ",
              ndim() - 1);
    return static_cast<size_t>(*index);
  }
  const auto axes = layout_.axes();
  const auto found = std::ranges::find(axes, *axis.name(), &Axis::name);
  if (found == axes.end()) return std::nullopt;
  return static_cast<size_t>(found - axes.begin());
}

size_t DeviceMesh::index_of(const AxisKey& axis) const {
  const std::optional<size_t> own = find_own(axis);
  if (own) return *own;
  const std::string_view name = *axis.name();
  TSR_CHECK(!root_->find(name), "'", name, "' is a flattened axis, not an axis of ", *this,
            "; slice it first");
  refuse_unknown(name);
}

MeshAxis DeviceMesh::at(const AxisKey& axis) const {
  check_member();
  if (const auto own = find_own(axis)) {
    return {layout_.select({layout_.axes()[*own].name()}, get_rank()), {groups_[*own]}};
  }
  const std::string_view name = *axis.name();
  auto flattened = root_->find(name);
  if (!flattened || !lies_within(flattened->line, layout_)) refuse_unknown(name);
  return *std::move(flattened);
}

DeviceMesh DeviceMesh::line(const AxisKey& axis) const {
  MeshAxis found = at(axis);
  return {root_, std::move(found.line), std::move(found.group)};
}

std::string DeviceMesh::only_axis() const {
  TSR_CHECK(ndim() == 1, *this, " has ", ndim(), " axes; name one of ", join(axis_names(), ", "));
  return layout_.axes()[0].name();
}

void DeviceMesh::check_member() const {
  if (is_member()) return;
  throw StateError(concat("rank ", get_rank(), " is not in ", *this,
                          "; check is_member() before using its axes"));
}

void DeviceMesh::refuse_unknown(std::string_view axis) const {
  AxisNames known = axis_names();
  const AxisNames flattened = root_->names_within(layout_);
  known.insert(known.end(), flattened.begin(), flattened.end());
  throw ConfigError(concat(*this, " has no axis '", axis, "'; it has ", join(known, ", "),
                           did_you_mean(axis, known)));
}

DeviceMesh init_device_mesh(const WorldHandle& world, c10::IntArrayRef shape,
                            const AxisNames& names, const AxisOptions& options) {
  TSR_CHECK(shape.size() == names.size(), "a mesh of shape (", join(shape, ", "), ") got ",
            names.size(), " names (", join(names, ", "), "); pass one name per axis");
  AxisSizes axes;
  for (size_t i = 0; i < names.size(); ++i) axes.push_back({names[i], shape[i]});
  return {world, Layout::row_major(axes), options};
}

}  // namespace tessera
