#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/parallel/fsdp/internal/flat_shard.h"
#include "tessera/tensor/parameter.h"

namespace tessera::fsdp::detail {

/// One unit: its flat buffers, and what is known of its gradients.
struct ShardedUnit {
  std::string name = {};
  std::vector<FlatShard> shards = {};
  std::vector<at::Tensor> trained = {};
  std::vector<size_t> reads = {};  // The units whose parameters it reads: itself, tied ones.
  size_t num_ready = 0;            // Of `trained`, in the pass under way.
  bool is_used = false;            // Gathered since the last reduction.
  bool is_reduced = false;
  bool is_shared = false;  // Another unit adds to its gradients: they are complete at the end.
  UnitLog log = {};
};

/// One line, equal on all ranks.
std::string describe(const FsdpOptions& options);

/// "parameter 'x' is sharded already" for the first one that is; "" if none is.
std::string first_sharded(const Parameters& parameters);

/// **Collective.** Runs a check, collective in a group, that throws ConfigError: on both groups, so
/// that all ranks throw if one does.
void check_both(const FsdpGroups& groups, const std::function<void(const Group&)>& check);

/// **Collective.** ConfigError, the same on all ranks of both groups, if the parameters' names,
/// shapes, dtypes or units differ, or if a rank has a complaint about sharding a parameter twice.
void check_alike(const FsdpGroups& groups, const std::vector<std::string>& description,
                 const std::string& sharded_twice);
/// One line for each parameter of a unit.
std::vector<std::string> describe(const std::string& unit, const Parameters& parameters);

/// The end of a unit's forward pass.
struct ForwardEnd {
  bool has_backward = true;
  bool is_last = false;  // Its backward pass comes next.
};

/// The units of a model that are sharded over the same ranks: which are gathered, and which
/// gradients are complete. The owner says when units are about to run.
class ShardedUnits {
 public:
  /// Parameters of experts are sharded over `experts`.
  ShardedUnits(const FsdpGroups& groups, const FsdpGroups& experts, const FsdpOptions& options);
  ShardedUnits(const FsdpGroups& groups, const FsdpOptions& options)
      : ShardedUnits(groups, groups, options) {}
  ShardedUnits(const ShardedUnits&) = delete;
  ShardedUnits& operator=(const ShardedUnits&) = delete;
  ~ShardedUnits();

  /// Local. A unit of these parameters, which must be placed: they become this rank's shards.
  void add(const std::string& name, Parameters& parameters);
  /// The second unit also reads a parameter of the first.
  void share(size_t first, size_t second);
  /// **Collective.** Called when the parameters have their values. ConfigError, the same on all
  /// ranks, if their units differ or a parameter was sharded before.
  void start();

  /// Where the units record from now on.
  void record(const UnitRecorder& recorder);

  size_t size() const { return units_.size(); }
  const ShardedUnit& operator[](size_t index) const { return units_[index]; }
  const FsdpGroups& groups() const { return groups_; }
  const FsdpOptions& options() const { return options_; }
  bool is_per_unit() const { return options_.when == ShardTime::kPerUnit; }

  /// Called before each gradient.
  void observe(std::function<void()> on_gradient) { observer_ = std::move(on_gradient); }
  /// Called before each backward pass: whether its gradients are reduced, or only added up.
  void begin_backward(bool reduces);
  void set_share(double share) { options_.share = share; }

  /// Starts to gather what the unit reads.
  void prefetch(size_t index);
  /// Whether all that the unit reads is gathered, with the values that the shards have now.
  bool is_gathered(size_t index) const;
  /// Waits for it, for the unit's forward pass.
  void gather(size_t index);
  /// Called before its backward pass: gathers again, if that `reads` the parameters. StateError if
  /// the shards have changed since the forward pass.
  void before_backward(size_t index, bool reads = true);
  /// Frees what a forward pass has read. If a backward pass follows, the policy decides.
  void after_forward(size_t index, const ForwardEnd& end);
  /// Frees the unit's memory, unless the policy keeps it.
  void free(size_t index);
  /// Frees the memory of all units, whatever the policy.
  void free_all();

  /// Starts the reduction; the replicas' part of the one before runs beside it.
  void start_reduce(size_t index);
  /// Drops the gradients that are not published yet: those of a backward pass that failed, and
  /// those that were added up before it.
  void drop_gradients();
  /// Begins a step: the shards may have changed.
  void begin();
  /// Ends a step or backward pass: reduces what is not reduced yet, if that is wanted, and waits
  /// for everything.
  void finish(bool reduces);

 private:
  void watch(size_t index);
  void publish();
  /// Of the shards of these groups, whether any rank has seen a gradient of each trained tensor.
  std::vector<bool> seen_by_any(bool of_experts) const;
  /// Frees what was gathered before the shards changed.
  void free_old();
  void expire();
  /// Changes with the shards: those of all units, since a rank may hold no element of one.
  uint64_t version() const;
  void on_gradient(size_t index);

  FsdpGroups groups_;
  FsdpGroups expert_groups_;
  FsdpOptions options_;
  std::vector<ShardedUnit> units_ = {};
  std::vector<std::string> description_ = {};
  std::function<void()> observer_ = {};
  uint64_t used_version_ = 0;       // At the last forward pass.
  std::string sharded_twice_ = {};  // A complaint about that.
  bool reduces_ = false;
  UnitSpan backward_ = {};                          // Of the unit whose backward pass began last.
  std::optional<size_t> in_flight_ = std::nullopt;  // The unit whose reduction was started last.
};

}  // namespace tessera::fsdp::detail
