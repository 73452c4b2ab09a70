#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/dialect/megatron/state.h"
#include "tessera/topology/rank_generator.h"

/// Megatron-Core's `parallel_state` under its names: functions on the state of the current world.
/// docs/dialects/megatron.md lists the differences from the documented API.
///
///   World::make_current(World::connect());
///   megatron::initialize_model_parallel({.tensor_model_parallel_size = 2});
///   all_reduce(x, megatron::get_tensor_model_parallel_group()).wait();
namespace tessera {
namespace megatron TSR_API {

using tessera::RankGenerator;  // With get_mask and get_ranks.

/// The state of the current world, on which the functions below act. Without a world, a pending
/// state; the next world takes over its overrides and buffers.
ParallelState& parallel_state();

#define TSR_CONST
#include "tessera/dialect/megatron/functions.h"
#undef TSR_CONST

/// The groups that the masked sizes span over ranks 0..world_size-1; the first size varies fastest.
std::vector<Ranks> generate_masked_orthogonal_rank_groups(int64_t world_size,
                                                          const std::vector<int64_t>& parallel_size,
                                                          const std::vector<bool>& mask);

/// The ranks of a pipeline that hold the word embeddings, unless a callback chooses others: the
/// first and the last. ConfigError if `pp_ranks` is empty.
Ranks default_embedding_ranks(const Ranks& pp_ranks);
/// The same for the position embeddings: the first.
Ranks default_position_embedding_ranks(const Ranks& pp_ranks);

/// The options of one kind of group; nullopt if the configuration has none for it.
std::optional<NcclOptions> get_nccl_options(const std::string& pg_name,
                                            const NcclConfig& nccl_comm_cfgs);
/// Sets one option from its text, as written in the file.
void overwrite_nccl_comm_cfgs(NcclConfig& nccl_comm_cfgs, const std::string& pg_name,
                              const std::pair<std::string, std::string>& key_value_pair);

}  // namespace megatron
}  // namespace tessera
