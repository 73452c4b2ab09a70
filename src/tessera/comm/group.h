#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <concepts>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "tessera/base/export.h"
#include "tessera/comm/options.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {
class GroupState;
}

namespace tessera TSR_API {

/// Some ranks of a world that exchange tensors: a cheap handle, equal to others of the same ranks,
/// lane and options.
///
/// Ranks that are no members may hold the handle, too; it says so. A group of one rank needs no
/// communicator: everything on it returns at once.
///
/// Thread rules: handles may be copied and asked from any thread. All ranks must start the
/// operations of one communicator (equal ranks, lane and options) in one order: so one thread
/// starts them, or the threads of each rank take turns in an order that all ranks share. Groups of
/// other ranks or on other lanes have communicators of their own, and may be used from other
/// threads at the same time. set_timeout() is for a moment in which nothing is under way.
class Group {
 public:
  explicit Group(std::shared_ptr<comm::detail::GroupState> state);
  // Moving copies, so that no handle is ever empty.
  Group(const Group& other) = default;
  Group& operator=(const Group& other) = default;
  ~Group() = default;

  const std::string& name() const&;
  std::string name() &&;  // Nothing refers to a group that is about to end.
  int64_t size() const;
  const RankGroup& ranks() const&;
  RankGroup ranks() &&;

  bool is_member() const;
  /// This process's rank in the group; StateError where it is no member.
  GroupRank rank() const;
  GlobalRank global_rank(GroupRank rank) const;
  /// The member's rank in the group; nothing where the rank is no member.
  std::optional<GroupRank> group_rank(GlobalRank rank) const;

  Lane lane() const;
  Backend backend() const;
  /// Where its engine works: on this process's GPU with NCCL, otherwise on the CPU.
  c10::Device device() const;
  /// Whether tensors of a device can be sent: those of the CPU and of CUDA devices. Gloo takes a
  /// GPU's by way of the CPU, so that ranks can share one GPU, which NCCL refuses; an NCCL group
  /// sends the CPU's over Gloo.
  bool takes(c10::DeviceType device) const;
  std::chrono::milliseconds timeout() const;
  /// Local: changes how long this process waits in this group.
  void set_timeout(std::chrono::milliseconds timeout) const;

  comm::detail::GroupState& state() const { return *state_; }
  friend TSR_API bool operator==(const Group& a, const Group& b);
  /// "dp: 0 2 4 6".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const Group& group);

 private:
  std::shared_ptr<comm::detail::GroupState> state_;
};

/// A member of a group, by its rank in the group or by its rank in the world, which is what the
/// Python of c10d counts in. A bare integer says neither, and does not compile.
class Member {
 public:
  Member(GroupRank rank) : rank_(rank) {}   // NOLINT(google-explicit-constructor)
  Member(GlobalRank rank) : rank_(rank) {}  // NOLINT(google-explicit-constructor)
  template <std::integral Integer>
  Member(Integer) {  // NOLINT(google-explicit-constructor)
    static_assert(!std::integral<Integer>,
                  "write GlobalRank{r} (what dist.broadcast(src=r) means) or GroupRank{r}");
  }

  /// Its rank in this group; ConfigError if it is not in it.
  GroupRank in(const Group& group) const;

 private:
  std::variant<GroupRank, GlobalRank> rank_;
};

}  // namespace tessera
