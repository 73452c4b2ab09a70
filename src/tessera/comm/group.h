#pragma once

#include <c10/core/DeviceType.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tessera/comm/options.h"
#include "tessera/topology/rank.h"

namespace tessera {

class GroupState;

/// Some ranks of a world that exchange tensors: a cheap handle, equal to others of the same ranks,
/// lane and options.
///
/// Ranks that are no members may hold the handle, too; it says so. A group of one rank needs no
/// communicator: everything on it returns at once.
class Group {
 public:
  explicit Group(std::shared_ptr<GroupState> state);

  const std::string& name() const;
  int64_t size() const;
  std::span<const GlobalRank> ranks() const;

  bool is_member() const;
  /// This process's rank in the group; StateError where it is no member.
  GroupRank rank() const;
  GlobalRank global_rank(GroupRank rank) const;
  /// The member's rank in the group; nothing where the rank is no member.
  std::optional<GroupRank> group_rank(GlobalRank rank) const;

  Lane lane() const;
  Backend backend() const;
  /// Where its engine works: on the GPU with NCCL, otherwise on the CPU.
  c10::DeviceType device_type() const;
  /// Whether tensors of a device can be sent. Gloo takes those of a GPU, too, by way of the CPU: so
  /// ranks can share one GPU, which NCCL refuses.
  bool takes(c10::DeviceType device) const;
  std::chrono::milliseconds timeout() const;
  /// Local: changes how long this process waits in this group.
  void set_timeout(std::chrono::milliseconds timeout) const;

  GroupState& state() const { return *state_; }
  friend bool operator==(const Group& a, const Group& b);

 private:
  std::shared_ptr<GroupState> state_;
};

}  // namespace tessera
