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

/// A group that is to be made: its ranks and how they talk.
struct GroupRequest {
  RankGroup ranks;
  GroupOptions options = {};
};

/// A world that somebody else owns: a cheap handle, by which its groups are made. Refuses to make
/// any once the world is closed.
class WorldHandle {
 public:
  GlobalRank rank() const;
  int64_t size() const;
  const LaunchInfo& launch() const&;
  LaunchInfo launch() &&;
  Backend backend() const;
  /// The device that this process computes on: the GPU of its local rank, or the CPU if it sees no
  /// GPU. Where ranks outnumber the GPUs of their host, they take turns at them.
  c10::Device device() const;
  /// Local: changes how long this process waits in the group of all ranks, and in groups that it
  /// makes from now on.
  void set_timeout(std::chrono::milliseconds timeout);

  /// All ranks.
  Group group() const;
  /// Some ranks. Local: the communicator is made when the group is first used, or by make_groups.
  Group group(const RankGroup& ranks, const GroupOptions& options = {}) const;
  /// **Collective.** All groups at once, in this order, which must be the same on every rank: so no
  /// two ranks can wait for each other. Each rank connects only to the groups that it is in.
  std::vector<Group> make_groups(std::span<const GroupRequest> requests) const;

 protected:
  explicit WorldHandle(std::shared_ptr<comm::detail::WorldState> state);
  comm::detail::WorldState& state() const;  // StateError once it was moved from.
  std::shared_ptr<comm::detail::WorldState> state_;
};

/// This process's connection to the other ranks of its job: the store through which they met, and
/// the communicators.
///
/// Owned by main; groups made from it must not be used after close().
///
/// Thread rules: group() and attached() may be called from several threads at once. make_groups(),
/// set_timeout() and close() are for one thread, while no other uses the world or its groups, and
/// current(), make_current() and clear_current() for the main thread.
class World : public WorldHandle {
 public:
  /// **Collective.** Meets the other ranks that `launch` speaks of. A world of one opens no socket.
  static World connect(const LaunchInfo& launch, const WorldOptions& options);
  /// The same, told by the variables of this process.
  static World connect(const WorldOptions& options = {});
  /// This process acts as rank `rank` of `size`: nothing is sent, every collective returns at once
  /// with the right shapes.
  static World fake(GlobalRank rank, int64_t size);

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  /// **Collective.** Waits for the other ranks to have finished, then lets go of all communicators.
  /// Once is enough.
  void close();

  /// What a dialect keeps with this world: a T, made from it on the first call. It ends when the
  /// world does.
  template <class T>
  T& attached() {
    return *static_cast<T*>(attached(typeid(T), [this] { return std::make_shared<T>(*this); }));
  }

  /// The world on which the dialects' free functions act: one per process, none until make_current.
  static World* current();
  /// Owns it from now on; closing and dropping it is clear_current's.
  static World& make_current(World world);
  static void clear_current();

 private:
  explicit World(std::shared_ptr<comm::detail::WorldState> state) : WorldHandle(std::move(state)) {}
  void* attached(std::type_index type, const std::function<std::shared_ptr<void>()>& make);
};

}  // namespace tessera
