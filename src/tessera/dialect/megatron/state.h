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

using Ranks = std::vector<int64_t>;
using tessera::MegatronConfig;

/// This rank's group of every level of a hierarchy, and its Gloo twins: nothing for twins that were
/// not asked for. Empty where the rank is in none.
struct HierarchicalGroups {
  std::vector<Group> groups = {};
  std::vector<std::optional<Group>> gloo_groups = {};
};

/// Megatron-Core's parallel_state as a value: what its module keeps in variables. Several may
/// exist; the functions of parallel_state.h act on the current world's.
///
/// A getter that comes before initialize_model_parallel raises StateError; one for a group that the
/// configuration does not have, or that this rank is not in, ConfigError.
class ParallelState {
 public:
  /// Knows no world: holds overrides and buffers alone.
  ParallelState();
  explicit ParallelState(const WorldHandle& world);
  /// The same, beginning with the overrides and buffers of a state that knows no world.
  ParallelState(const WorldHandle& world, ParallelState before);
  ParallelState(ParallelState&&) noexcept;
  ParallelState& operator=(ParallelState&&) noexcept;
  ~ParallelState();

  /// What the groups were made from; StateError before initialize_model_parallel.
  const Plan& plan() const;
  /// Every group made here that this rank is in, in the order of creation.
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
  /// The group of this name; ConfigError with the reason where this rank has none.
  Group need(std::string_view name) const;
  std::optional<Group> find(std::string_view name) const;
  std::optional<Group> get(std::string_view name, bool check_initialized) const;
  /// Whether the optimizer has several instances, so that data-parallel groups have parts.
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
  bool has_made_groups_ = false;  // Whether or not this rank is in any.
  Ranks embedding_ranks_;  // As the callback listed them; empty where this rank is not among them.
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
