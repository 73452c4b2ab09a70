#include "tessera/plan/group_spec.h"

#include <bit>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"

namespace tessera {

const char* to_string(GroupBackend backend) {
  switch (backend) {
    case GroupBackend::kDefault:
      return "default";
    case GroupBackend::kGloo:
      return "gloo";
    case GroupBackend::kNccl:
      return "nccl";
    case GroupBackend::kUcc:
      return "ucc";
  }
  return "?";
}

GroupSpec gloo_twin(const GroupSpec& spec, std::string name) {
  GroupSpec twin = spec;
  twin.name = std::move(name);
  twin.backend = GroupBackend::kGloo;
  twin.options = {};
  twin.lane = Lane::kControl;
  twin.made = Made::kAfterGroup;
  return twin;
}

Layout line_of(std::span<const GlobalRank> ranks, int64_t world) {
  for (const GlobalRank rank : ranks) {
    TSR_CHECK(0 <= rank.value && rank.value < world, "rank ", rank, " is outside the world of ",
              world, " ranks; choose 0 to ", world - 1);
  }
  return Layout::from_ranks({{"ranks", static_cast<int64_t>(ranks.size())}}, ranks);
}

std::vector<GroupSpec> hierarchical_specs(const Layout& layout, const AxisNames& axes,
                                          std::span<const int64_t> sizes,
                                          const HierarchyOptions& options) {
  if (sizes.empty()) return {};
  for (const int64_t size : sizes) {
    TSR_CHECK(size > 0, "a level of ", options.description, " has size ", size,
              ", but must be at least 1");
  }
  const int64_t product = checked_product(sizes, "the product of the levels");
  TSR_CHECK(product == layout.group_size(axes), "the levels ", join(sizes, "·"), " = ", product,
            " of ", options.description, " do not match its ", layout.group_size(axes),
            " ranks; their product must be that number");
  TSR_CHECK(!options.nccl || options.nccl->size() == sizes.size(), options.nccl->size(),
            " options were given for ", sizes.size(), " levels of ", options.description,
            "; give one per level, or none at all");
  std::vector<GroupSpec> specs;
  int64_t stride = 1;
  for (size_t level = 0; level < sizes.size(); ++level) {
    const std::string prefix = concat("HIERARCHICAL_", options.description);
    specs.push_back({.name = concat(prefix, "_L", level),
                     .label = concat(options.label, " L", level),
                     .groups = GroupFamily(layout, axes, Cut{sizes[level], stride}),
                     .timeout = options.timeout,
                     .options = options.nccl ? (*options.nccl)[level] : NcclOptions{},
                     .lane = options.lane,
                     .sharp = options.sharp,
                     .made = level == 0 ? options.made : Made::kAfterLine});
    stride *= sizes[level];
    if (!options.gloo_twins) continue;
    GroupSpec twin = gloo_twin(specs.back(), concat(prefix, "_GLOO_L", level));
    twin.options = specs.back().options;  // Only here does Megatron pass them to the twin.
    specs.push_back(std::move(twin));
  }
  return specs;
}

std::vector<GroupSpec> hybrid_specs(const Layout& layout, const AxisNames& axes,
                                    const NcclOptions& options) {
  const auto limit = std::bit_floor(static_cast<uint64_t>(layout.group_size(axes)));
  std::vector<GroupSpec> specs;
  for (uint64_t size = 2; size < limit; size *= 2) {
    specs.push_back({.name = concat("HYBRID_DP_CP_GROUP_", size),
                     .label = concat(join(axes, "-"), " by ", size),
                     .groups = GroupFamily(layout, axes, Cut{static_cast<int64_t>(size)}),
                     .options = options,
                     .made = specs.empty() ? Made::kAfterAll : Made::kAfterLine});
  }
  return specs;
}

}  // namespace tessera
