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

/// A set of ranks that exchange tensors. A cheap handle; two handles are equal if they have the
/// same ranks, lane and options.
///
/// Ranks outside the group may hold the handle, too; see is_member(). A group of one rank needs no
/// communicator: all its operations return at once.
///
/// Threads: any thread may copy and query handles. All ranks must start the operations of one
/// communicator (equal ranks, lane and options) in the same order: from one thread, or from several
/// threads in an order that all ranks share. Groups with other ranks or lanes have their own
/// communicators and may be used from other threads at the same time. Call set_timeout() only if
/// no operation is in flight.
class Group {
 public:
  explicit Group(std::shared_ptr<comm::detail::GroupState> state);
  /// Moving copies, so that no handle is ever empty.
  Group(const Group& other) = default;
  Group& operator=(const Group& other) = default;
  ~Group() = default;

  /// For messages; its ranks, e.g. "{0,1}", if the options have none.
  const std::string& name() const&;
  std::string name() &&;  // By value: a temporary is about to end.
  /// The number of its ranks.
  int64_t size() const;
  /// Its members in group-rank order, by global rank.
  const RankGroup& ranks() const&;
  RankGroup ranks() &&;

  /// Whether this process is one of its ranks.
  bool is_member() const;
  /// This process's rank in the group; StateError if it is not a member.
  GroupRank rank() const;
  /// A member's rank in the world; ConfigError if the group has no such rank.
  GlobalRank global_rank(GroupRank rank) const;
  /// The rank in the group; empty if `rank` is not a member.
  std::optional<GroupRank> group_rank(GlobalRank rank) const;

  /// Which of the communicators of these ranks it uses.
  Lane lane() const;
  /// Never kAuto.
  Backend backend() const;
  /// The device of its back end: this process's GPU with NCCL, otherwise the CPU.
  c10::Device device() const;
  /// Whether the group can send tensors of this device type: true for CPU and CUDA. Gloo copies GPU
  /// tensors through the CPU, so that ranks can share one GPU, which NCCL refuses. An NCCL group
  /// sends CPU tensors over Gloo.
  bool takes(c10::DeviceType device) const;
  /// How long this process waits for an operation.
  std::chrono::milliseconds timeout() const;
  /// Local: changes how long this process waits in this group.
  void set_timeout(std::chrono::milliseconds timeout) const;

  /// Internal to the library.
  comm::detail::GroupState& state() const { return *state_; }
  friend TSR_API bool operator==(const Group& a, const Group& b);
  /// "dp: 0 2 4 6".
  friend TSR_API std::ostream& operator<<(std::ostream& out, const Group& group);

 private:
  std::shared_ptr<comm::detail::GroupState> state_;
};

/// A member of a group: by its rank in the group, or by its global rank, as torch.distributed does.
/// A bare integer is ambiguous and does not compile.
class Member {
 public:
  Member(GroupRank rank) : rank_(rank) {}   // NOLINT(google-explicit-constructor)
  Member(GlobalRank rank) : rank_(rank) {}  // NOLINT(google-explicit-constructor)
  template <std::integral Integer>
  Member(Integer) {  // NOLINT(google-explicit-constructor)
    static_assert(!std::integral<Integer>,
                  "write GlobalRank{r} (what dist.broadcast(src=r) means) or GroupRank{r}");
  }

  /// Its rank in this group; ConfigError if it is not a member.
  GroupRank in(const Group& group) const;

 private:
  std::variant<GroupRank, GlobalRank> rank_;
};

}  // namespace tessera
