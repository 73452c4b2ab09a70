// Makes individual groups and sets the time-outs of all groups.
#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/dialect/megatron/parallel_state.h"

namespace tessera::megatron {
namespace {

Backend backend_named(const std::optional<std::string>& name) {
  if (!name) return Backend::kAuto;
  TSR_CHECK(*name == "gloo" || *name == "nccl", "back end '", *name,
            "' is unknown; choose gloo or nccl, or leave it to the world");
  return *name == "gloo" ? Backend::kGloo : Backend::kNccl;
}

// A single entry applies to every level.
std::optional<std::vector<NcclOptions>> options_of(const std::vector<NcclOptions>& options,
                                                   size_t num_levels) {
  if (options.empty()) return std::nullopt;
  return options.size() == 1 ? std::vector(num_levels, options[0]) : options;
}

}  // namespace

Group ParallelState::create_group(const Ranks& ranks,
                                  std::optional<std::chrono::milliseconds> timeout,
                                  const std::optional<std::string>& backend,
                                  const std::optional<NcclOptions>& pg_options,
                                  bool /*use_local_synchronization*/,
                                  const std::optional<std::string>& group_desc) {
  RankGroup members = to_ranks(ranks);
  std::ranges::sort(members);
  const GroupRequest request{std::move(members),
                             {.name = group_desc.value_or(""),
                              .backend = backend_named(backend),
                              .timeout = timeout,
                              .nccl = pg_options.value_or(NcclOptions{}),
                              .own = true}};
  return make_own(std::span(&request, 1)).front();
}

std::vector<Group> ParallelState::make_own(std::span<const GroupRequest> requests) {
  std::vector<Group> groups = world().make_groups(requests);
  std::ranges::copy_if(groups, std::back_inserter(groups_), &Group::is_member);
  has_made_groups_ = true;
  return groups;
}

HierarchicalGroups ParallelState::create_hierarchical_groups(
    int64_t rank, const Ranks& ranks, const std::vector<int64_t>& hierarchical_group_sizes,
    bool create_gloo_process_groups, const std::vector<NcclOptions>& pg_options,
    std::optional<std::chrono::milliseconds> timeout,
    const std::optional<std::string>& group_desc) {
  const Layout line = line_of(to_ranks(ranks), world().size());
  const std::vector<GroupSpec> specs =
      hierarchical_specs(line, {"ranks"}, hierarchical_group_sizes,
                         {.description = group_desc.value_or("None"),
                          .nccl = options_of(pg_options, hierarchical_group_sizes.size()),
                          .gloo_twins = create_gloo_process_groups});
  HierarchicalGroups made;
  for (const Group& group : make_own(specs, GlobalRank{rank}, timeout)) {
    if (group.lane() == Lane::kControl) {
      made.gloo_groups.back() = group;  // The twin of the previous group.
    } else {
      made.groups.push_back(group);
      made.gloo_groups.emplace_back();
    }
  }
  return made;
}

std::map<int64_t, Group> ParallelState::create_hybrid_dp_cp_groups(int64_t rank, const Ranks& ranks,
                                                                   const NcclOptions& pg_options) {
  const Layout line = line_of(to_ranks(ranks), world().size());
  const std::vector<GroupSpec> specs = hybrid_specs(line, {"ranks"}, pg_options);
  std::map<int64_t, Group> made;
  int64_t size = 1;
  for (const Group& group : make_own(specs, GlobalRank{rank}, std::nullopt))
    made.emplace(size *= 2, group);
  return made;
}

std::vector<Group> ParallelState::make_own(std::span<const GroupSpec> specs, GlobalRank rank,
                                           std::optional<std::chrono::milliseconds> timeout) {
  TSR_CHECK(rank == world().rank(), "groups of rank ", rank, " cannot be made by rank ",
            world().rank(), "; pass the rank of the process that calls");
  std::vector<GroupRequest> requests;
  for (const GroupSpec& spec : specs) {
    if (!spec.groups.layout().contains(rank)) continue;
    requests.push_back(
        {*spec.groups.group_of(rank),
         {.name = spec.name,
          .lane = spec.lane,
          .backend = spec.backend == GroupBackend::kGloo ? Backend::kGloo : Backend::kAuto,
          .timeout = timeout,
          .nccl = spec.options,
          .own = true}});
  }
  return make_own(requests);
}

void ParallelState::update_pg_timeout(std::chrono::milliseconds timeout,
                                      const std::optional<Group>& pg) {
  TSR_CHECK(timeout.count() > 0, "a time-out of ", timeout.count(),
            " ms is not positive; choose at least 1 ms");
  if (pg) {
    barrier(*pg);
    return pg->set_timeout(timeout);
  }
  // Ranks outside all groups must also reach the barrier.
  if (groups_.empty() && !has_made_groups_) {
    throw StateError(
        "there are no groups yet; call initialize_model_parallel or create_group "
        "first");
  }
  barrier(world().group());
  world_->set_timeout(timeout);
  for (const Group& group : groups_) group.set_timeout(timeout);
}

std::vector<Ranks> generate_masked_orthogonal_rank_groups(int64_t world_size,
                                                          const std::vector<int64_t>& parallel_size,
                                                          const std::vector<bool>& mask) {
  std::vector<Ranks> groups;
  for (const RankGroup& group :
       tessera::generate_masked_orthogonal_rank_groups(world_size, parallel_size, mask)) {
    Ranks& ranks = groups.emplace_back();
    for (const GlobalRank rank : group) ranks.push_back(rank.value);
  }
  return groups;
}

Ranks default_embedding_ranks(const Ranks& pp_ranks) {
  TSR_CHECK(!pp_ranks.empty(), "a pipeline of no ranks has no embeddings; pass at least 1 rank");
  return pp_ranks.size() == 1 ? pp_ranks : Ranks{pp_ranks.front(), pp_ranks.back()};
}

Ranks default_position_embedding_ranks(const Ranks& pp_ranks) {
  TSR_CHECK(!pp_ranks.empty(), "a pipeline of no ranks has no embeddings; pass at least 1 rank");
  return {pp_ranks.front()};
}

std::optional<NcclOptions> get_nccl_options(const std::string& pg_name,
                                            const NcclConfig& nccl_comm_cfgs) {
  const auto at = nccl_comm_cfgs.find(pg_name);
  return at == nccl_comm_cfgs.end() ? std::nullopt : std::optional(at->second);
}

void overwrite_nccl_comm_cfgs(NcclConfig& nccl_comm_cfgs, const std::string& pg_name,
                              const std::pair<std::string, std::string>& key_value_pair) {
  const std::span<const std::string> known = nccl_sections();
  TSR_CHECK(std::ranges::find(known, pg_name) != known.end(), "section '", pg_name,
            "' is unknown; known are ", join(known, ", "), did_you_mean(pg_name, known));
  NcclOptions options = get_nccl_options(pg_name, nccl_comm_cfgs).value_or(NcclOptions{});
  set_nccl_option(options, key_value_pair.first, key_value_pair.second);
  nccl_comm_cfgs[pg_name] = options;
}

}  // namespace tessera::megatron
