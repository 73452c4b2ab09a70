#include "tests/golden/nemo_answers.h"

#include "tessera/base/check.h"
#include "tessera/comm/world.h"
#include "tessera/dialect/nemo/mesh_utils.h"
#include "tests/golden/plan_json.h"

namespace tessera::golden {
namespace {

using nemo::DeviceMeshes;

// A null size has its default; what is no number cannot be said in C++.
template <class Size>
void read_size(const Json& input, const char* name, Size& size) {
  const Json value = input.value(name, Json());
  if (value.is_null()) return;
  TSR_CHECK(value.is_number_integer(), name, " ", value, " is no whole number");
  size = value.get<int64_t>();
}

nemo::ParallelismSizes sizes_of(const Json& input) {
  nemo::ParallelismSizes sizes;
  read_size(input, "dp_size", sizes.dp_size);
  read_size(input, "dp_replicate_size", sizes.dp_replicate_size);
  read_size(input, "tp_size", sizes.tp_size);
  read_size(input, "pp_size", sizes.pp_size);
  read_size(input, "cp_size", sizes.cp_size);
  read_size(input, "ep_size", sizes.ep_size);
  return sizes;
}

DeviceMeshes meshes_of(const Json& input, bool todays_moe_mesh) {
  nemo::MeshOptions options;
  if (todays_moe_mesh) options.moe_mesh = nemo::MoeMesh::kToday;
  read_size(input, "timeout_minutes", options.timeout_minutes);
  if (!input.value("ranks", Json()).is_null()) options.ranks = input.at("ranks");
  std::optional<int64_t> world_size;
  read_size(input, "world_size", world_size);
  return nemo::create_device_mesh(nemo::strategy_named(input.at("strategy").get<std::string>()),
                                  sizes_of(input), world_size, options);
}

// "dp+cp", "fsdp_dp_mesh" or "ring2xulysses4".
DeviceMesh submesh(const DeviceMesh& mesh, const std::string& name) {
  if (name == "fsdp_dp_mesh") return nemo::get_fsdp_dp_mesh(mesh);
  if (name.starts_with("ring")) {
    const size_t cut = name.find("xulysses");
    const auto ring = to_integer(name.substr(4, cut - 4));
    const auto ulysses = to_integer(name.substr(cut + 8));
    return nemo::create_ring_ulysses_mesh(mesh, ring.value(), ulysses.value());
  }
  AxisNames names;
  for (const std::string_view part : split(name, '+')) names.emplace_back(part);
  return nemo::get_submesh(mesh, names);
}

std::optional<DeviceMesh> find_axis(const DeviceMeshes& meshes, const std::string& name) {
  for (const std::optional<DeviceMesh>& mesh : {meshes.first, meshes.second}) {
    if (mesh && mesh->layout().has_axis(name)) return mesh->slice({name});
    if (mesh && mesh->flattened(name)) return mesh->flattened(name);
  }
  return std::nullopt;
}

// The peer reads sizes off the live meshes.
Json sizes_answer(const DeviceMeshes& meshes) {
  Json sizes;
  for (const char* axis : {"pp", "tp", "cp", "ep", "dp_shard", "dp", "dp_replicate"}) {
    const std::string name = axis;
    const std::optional<DeviceMesh> line = find_axis(meshes, name);
    const bool may_be_none = name == "dp" || name == "dp_replicate";
    sizes[name + "_size"] = line ? Json(line->size()) : may_be_none ? Json() : Json(1);
  }
  return sizes;
}

Json dp_axis_names(const DeviceMeshes& meshes) {
  const bool both = find_axis(meshes, "dp_replicate") && find_axis(meshes, "dp_shard_cp");
  return both ? Json{"dp_replicate", "dp_shard_cp"} : Json{"dp_shard_cp"};
}

/// What all ranks answer to one case. The names to ask for are those of the table.
class Answers {
 public:
  Answers(const Json& expected, int64_t num_ranks)
      : num_ranks_(num_ranks), device_(num_ranks), moe_(num_ranks) {
    for (const char* name : {"dp", "dp_shard_cp", "dp_cp", "dp_replicate_dp_shard_cp_tp"}) {
      flattened_.emplace(name, num_ranks);
    }
    add_names(expected, "flattened", flattened_);
    add_names(expected, "get_flat_mesh", flat_);
    add_names(expected, "get_submesh", sub_);
  }

  void add(const DeviceMeshes& meshes) {
    const std::optional<DeviceMesh>& device = meshes.first;
    const std::optional<DeviceMesh>& moe = meshes.second;
    has_moe_ = has_moe_ || moe;
    if (device && !device->is_member()) return;
    sizes_ = sizes_answer(meshes);
    dp_axis_names_ = dp_axis_names(meshes);
    if (!device) return;
    has_device_ = true;
    device_.add(*device);
    if (moe) moe_.add(*moe);
    for (auto& [name, answer] : flattened_) {
      if (const auto line = device->flattened(name)) answer.add(*line);
    }
    for (auto& [name, answer] : flat_) ask(answer, nemo::get_flat_mesh, *device, name);
    for (auto& [name, answer] : sub_) ask(answer, submesh, *device, name);
  }

  Json json() const {
    Json all{{"device_mesh", has_device_ ? device_.whole() : Json()},
             {"moe_mesh", has_moe_ ? moe_.whole() : Json()},
             {"sizes", sizes_},
             {"dp_axis_names", dp_axis_names_},
             {"flattened", Json::object()}};
    for (const auto& [name, answer] : flattened_) {
      const Json line = answer.sized_line();
      if (!line.is_null()) all["flattened"][name] = line;
    }
    for (const auto& [name, answer] : flat_) all["get_flat_mesh"][name] = answer.line();
    for (const auto& [name, answer] : sub_) all["get_submesh"][name] = answer.whole();
    return all;
  }

 private:
  using ByName = std::map<std::string, MeshAnswer>;

  void add_names(const Json& expected, const char* field, ByName& answers) {
    const Json named = expected.value(field, Json::object());
    for (const auto& [name, unused] : named.items()) {
      answers.emplace(name, num_ranks_);
    }
  }

  using Helper = DeviceMesh(const DeviceMesh& mesh, const std::string& name);
  static void ask(MeshAnswer& answer, Helper& helper, const DeviceMesh& mesh,
                  const std::string& name) {
    try {
      answer.add(helper(mesh, name));
    } catch (const ConfigError&) {
      answer.add_refusal();
    }
  }

  int64_t num_ranks_;
  bool has_device_ = false;
  bool has_moe_ = false;
  MeshAnswer device_;
  MeshAnswer moe_;
  ByName flattened_;
  ByName flat_;
  ByName sub_;
  Json sizes_;
  Json dp_axis_names_;
};

}  // namespace

void MeshAnswer::add(const DeviceMesh& mesh) {
  const Json dims = mesh.axis_names();
  const Json shape = mesh.shape();
  if (num_members_++ == 0) {
    dims_ = dims;
    shape_ = shape;
  }
  if (dims != dims_ || shape != shape_) trouble_ = concat("rank ", mesh.get_rank(), " has ", mesh);
  const auto rank = static_cast<size_t>(mesh.get_rank().value);
  coords_[rank] = mesh.get_coordinate().value();
  local_ranks_[rank] = Json::array();
  for (const std::string& axis : mesh.axis_names()) {
    const Group group = mesh.get_group(axis);
    const RankGroup ranks(group.ranks().begin(), group.ranks().end());
    local_ranks_[rank].push_back(group.rank().value);
    const auto [at, added] = groups_[axis].emplace(ranks.front(), ranks);
    if (at->second != ranks) trouble_ = concat("two groups of ", axis, " begin with ", at->first);
  }
}

std::optional<Json> MeshAnswer::stop() const {
  if (!trouble_.empty()) return trouble_;
  if (num_refused_ == 0) return num_members_ == 0 ? std::optional(Json()) : std::nullopt;
  return num_members_ == 0 ? refusal() : Json("refused by some ranks alone");
}

Json MeshAnswer::sorted_groups(const std::string& dim) const {
  Json groups = Json::array();
  for (const auto& [first, ranks] : groups_.at(dim)) groups.push_back(to_json(ranks));
  return groups;
}

Json MeshAnswer::whole() const {
  if (const auto instead = stop()) return *instead;
  Json groups;
  for (const std::string dim : dims_) groups[dim] = sorted_groups(dim);
  Json all{{"dims", dims_}, {"shape", shape_}, {"coords", coords_}, {"groups", groups}};
  if (local_ranks_ != coords_) all["pg_local_ranks"] = local_ranks_;
  return all;
}

Json MeshAnswer::line() const {
  if (const auto instead = stop()) return *instead;
  Json line{{"groups", sorted_groups(dims_.at(0))}};
  if (local_ranks_ != coords_) line["pg_local_ranks"] = local_ranks_;
  return line;
}

Json MeshAnswer::sized_line() const {
  Json sized = line();
  if (sized.is_object()) sized["size"] = shape_.at(0);
  return sized;
}

int64_t world_of(const Json& input) {
  int64_t world = 1;
  read_size(input, "world_size", world);
  read_size(input, "actual_world_size", world);
  return world;
}

Json nemo_answer(const Json& test_case, bool todays_moe_mesh) {
  const Json& input = test_case.at("input");
  const int64_t world = world_of(input);
  Answers answers(test_case.at("expect"), world);
  int64_t num_refused = 0;
  for (int64_t rank = 0; rank < world; ++rank) {
    World::clear_current();
    World::make_current(World::fake(GlobalRank{rank}, world));
    try {
      answers.add(meshes_of(input, todays_moe_mesh));
    } catch (const ConfigError&) {
      ++num_refused;
    }
  }
  World::clear_current();
  if (num_refused == 0) return answers.json();
  return num_refused == world ? refusal() : Json("refused by some ranks alone");
}

}  // namespace tessera::golden
