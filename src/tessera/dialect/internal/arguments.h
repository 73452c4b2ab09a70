#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/plan/megatron/plan.h"
#include "tessera/plan/nemo/plan.h"
#include "tessera/plan/olmo/config.h"

/// The arguments of a call that makes groups, one per line, with their names in the dialect.
namespace tessera::dialect::detail {

using Lines = std::vector<std::string>;

Lines lines_of(const MegatronConfig& config);
Lines lines_of(const nemo::DistributedConfig& config, const nemo::ParallelismSizes& sizes,
               const nemo::MeshOptions& options);
Lines lines_of(const olmo::WorldMeshConfig& config, const std::optional<std::string>& device_type,
               int64_t num_nodes);

/// **Collective.** With different arguments, ranks would hang in groups that the others do not
/// make. Instead, all ranks throw the same ConfigError, which names the argument and its values.
void check_same_arguments(const Group& group, const std::string& call, const Lines& lines);

}  // namespace tessera::dialect::detail
