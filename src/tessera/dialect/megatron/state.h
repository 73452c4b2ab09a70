#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/comm/world.h"
#include "tessera/mesh/realize.h"
#include "tessera/plan/megatron/plan.h"
#include "tessera/plan/nccl_options.h"

namespace tessera {
namespace megatron TSR_API {

class GlobalMemoryBuffer;
class GlobalSymmetricMemoryBuffer;

/// Global ranks.
using Ranks = std::vector<int64_t>;
using tessera::MegatronConfig;

/// This rank's groups in a hierarchy. Both lists are empty if it is in no group.
struct HierarchicalGroups {
  std::vector<Group> groups = {};  // One per level, innermost first.
  /// Their Gloo twins, by level; nullopt if they were not requested.
  std::vector<std::optional<Group>> gloo_groups = {};
};

/// Megatron-Core's parallel_state as a value: it holds what that module keeps in global variables.
/// Several may exist; the functions of parallel_state.h act on that of the current world.
///
/// A getter called before initialize_model_parallel raises StateError. A getter of a group that the
/// configuration lacks, or that this rank is not in, raises ConfigError.
class ParallelState {
 public:
  /// Without a world: holds only overrides and buffers.
  ParallelState();
  explicit ParallelState(const WorldHandle& world);
  /// Takes over the overrides and buffers of a state without a world.
  ParallelState(const WorldHandle& world, ParallelState before);
  ParallelState(ParallelState&&) noexcept;
  ParallelState& operator=(ParallelState&&) noexcept;
  ~ParallelState();

  /// The plan that the groups were made from; StateError before initialize_model_parallel.
  const Plan& plan() const;
  /// Every group made here that contains this rank, in order of creation.
  std::span<const Group> groups() const { return groups_; }

#define TSR_CONST const
#include "tessera/dialect/megatron/functions.h"
#undef TSR_CONST

 private:
  struct Override {
    std::optional<int64_t> size = std::nullopt;
    std::optional<int64_t> rank = std::nullopt;
  };

  const WorldHandle& world() const;
  const RealizedPlan& realized() const;
  /// The group of this name; ConfigError with the reason if this rank has none.
  Group need(std::string_view name) const;
  std::optional<Group> find(std::string_view name) const;
  std::optional<Group> get(std::string_view name, bool check_initialized) const;
  /// Whether the optimizer has several instances, so that data-parallel groups are split.
  bool has_instances() const;
  void check_can_initialize() const;
  void keep_embedding_ranks();
  std::vector<Group> make_own(std::span<const GroupRequest> requests);
  std::vector<Group> make_own(std::span<const GroupSpec> specs, GlobalRank rank,
                              std::optional<std::chrono::milliseconds> timeout);
  int64_t pipeline_rank(int64_t index) const;
  int64_t pipeline_neighbour(int64_t distance) const;

  std::optional<WorldHandle> world_;
  std::optional<RealizedPlan> realized_;
  std::vector<Group> groups_;
  bool has_made_groups_ = false;  // Even if this rank is in none.
  Ranks embedding_ranks_;         // In the callback's order; empty if this rank is not among them.
  Override tensor_;
  Override pipeline_;
  Override data_;
  Override expert_model_;
  Override expert_tensor_;
  Override virtual_pipeline_;
  std::unique_ptr<GlobalMemoryBuffer> buffer_;
  std::unique_ptr<GlobalSymmetricMemoryBuffer> symmetric_buffer_;
};

}  // namespace megatron
}  // namespace tessera
