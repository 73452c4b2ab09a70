#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <typeindex>
#include <utility>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/comm/launch_info.h"
#include "tessera/comm/options.h"
#include "tessera/topology/rank.h"

namespace tessera::comm::detail {
class WorldState;
}

namespace tessera TSR_API {

/// The ranks and options of a group to make.
struct GroupRequest {
  RankGroup ranks;            // In group-rank order.
  GroupOptions options = {};  // Equal on all members, except name and timeout.
};

/// A cheap handle to a World, without ownership, to make groups. StateError if the world is closed.
class WorldHandle {
 public:
  /// Of this process.
  GlobalRank rank() const;
  /// Ranks of the whole job.
  int64_t size() const;
  /// As passed to connect(), or as read from this process's environment.
  const LaunchInfo& launch() const&;
  LaunchInfo launch() &&;
  /// Of groups that do not choose one; never kAuto.
  Backend backend() const;
  /// Whether realize() makes NCCL communicators by splits of that of all ranks:
  /// TESSERA_NCCL_SPLIT=1.
  bool splits_nccl() const;
  /// The device of this process: the GPU of its local rank (modulo the number of GPUs), or the CPU
  /// if it sees no GPU.
  c10::Device device() const;
  /// Local: changes how long this process waits in the group of all ranks, and in groups that it
  /// makes later.
  void set_timeout(std::chrono::milliseconds timeout);

  /// The group of all ranks.
  Group group() const;
  /// A group of these ranks. Local: its first use, or make_groups(), creates the communicator.
  Group group(const RankGroup& ranks, const GroupOptions& options = {}) const;
  /// **Collective.** Makes all groups in this order, which must be the same on every rank, so that
  /// ranks cannot deadlock. Each rank connects only to its own groups.
  std::vector<Group> make_groups(std::span<const GroupRequest> requests) const;

 protected:
  explicit WorldHandle(std::shared_ptr<comm::detail::WorldState> state);
  comm::detail::WorldState& state() const;           // StateError if this object was moved from.
  std::shared_ptr<comm::detail::WorldState> state_;  // Null if this object was moved from.
};

/// This process's connection to the other ranks of its job: the rendezvous store and the
/// communicators.
///
/// Usually owned by main(). Do not use its groups after close().
///
/// Threads: several threads may call group() and attached() at once. Call make_groups(),
/// set_timeout() and close() only while no other thread uses the world or its groups, and
/// current(), make_current() and clear_current() only on the main thread.
class World : public WorldHandle {
 public:
  /// **Collective.** Connects to the other ranks of `launch`. A world of one rank opens no socket.
  static World connect(const LaunchInfo& launch, const WorldOptions& options);
  /// The same, with the launch variables of this process.
  static World connect(const WorldOptions& options = {});
  /// Simulates rank `rank` of `size`: nothing is sent, and every collective returns at once with
  /// the right shapes.
  static World fake(GlobalRank rank, int64_t size);

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  /// **Collective.** Waits until all ranks call it, then releases all communicators. Further calls
  /// do nothing.
  void close();

  /// State of a dialect for this world: the first call makes a T from it. It lives as long as the
  /// world.
  template <class T>
  T& attached() {
    return *static_cast<T*>(attached(typeid(T), [this] { return std::make_shared<T>(*this); }));
  }

  /// The world that the dialects' free functions use: one per process; null before make_current().
  static World* current();
  /// Takes ownership until clear_current().
  static World& make_current(World world);
  /// Destroys the current world, if there is one. Not collective: call close() before.
  static void clear_current();

 private:
  explicit World(std::shared_ptr<comm::detail::WorldState> state) : WorldHandle(std::move(state)) {}
  void* attached(std::type_index type, const std::function<std::shared_ptr<void>()>& make);
};

}  // namespace tessera
