#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tessera/base/descriptor.h"
#include "tessera/base/export.h"
#include "tessera/launch/event_loop.h"
#include "tessera/launch/store_address.h"
#include "tessera/launch/store_frame.h"

namespace tessera TSR_API {

/// The key-value store through which the ranks of a job connect, served by its own thread. No
/// client can block another: clients that have not proved that they belong to the job, or that send
/// half a request, are kept separate and dropped.
class StoreServer {
 public:
  /// The time in which a connection must prove that it belongs to the job.
  static constexpr std::chrono::seconds kHelloTime{5};
  /// The number of connections that have not; a new one replaces the oldest.
  static constexpr size_t kMostStrangers = 64;

  /// Starts to listen. With an empty secret, clients need none.
  StoreServer(const StoreAddress& address, std::string secret);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  /// A request for keys that do not exist yet.
  struct Pending {
    StoreFrame request;
    Clock::time_point deadline;
  };
  using Number = uint64_t;  // Identifies a client; never reused.
  struct Client {
    Number number;
    Descriptor socket;
    bool is_member = false;
    Clock::time_point since;
    std::string received = {};
    std::string unsent = {};
    bool is_full = false;  // The socket buffer is full.
  };

  void run();
  void accept_clients();
  void watch_listener();
  void watch(const Client& client);
  void on_event(Number number);
  void read_some(Client& client);
  void take_requests(Client& client);
  void write_some(Client& client);
  void admit(Client& client, const StoreFrame& hello);
  void answer(Client& client, const StoreFrame& request);
  StoreFrame change(const StoreFrame& request);
  std::optional<StoreFrame> try_read(const StoreFrame& request) const;
  void serve_pending();
  void drop_late();
  void drop(Number number);
  bool drop_oldest_stranger();
  Clock::time_point next_deadline() const;

  const StoreAddress address_;
  const std::string secret_;
  Descriptor listener_;
  Pipe wake_up_;
  EventLoop loop_;
  std::map<Number, Client> clients_;
  std::set<Number> strangers_;         // Those that are not members.
  std::map<Number, Pending> waiting_;  // One request per client at most.
  Number next_number_ = 0;
  bool stopping_ = false;
  std::optional<Clock::time_point> accept_again_;  // While there is no free descriptor.
  bool changed_ = false;                           // A key was added: a client may wait for it.
  std::unordered_map<std::string, std::string> values_;
  std::thread thread_;
};

}  // namespace tessera
