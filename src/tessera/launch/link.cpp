#include "tessera/launch/link.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/base/check.h"
#include "tessera/base/machine.h"

namespace tessera {
namespace {

constexpr std::chrono::milliseconds kCheckInterval{1000};
constexpr std::chrono::milliseconds kPingBatch{200};
constexpr size_t kManyNodes = 64;
constexpr std::chrono::seconds kFinishTimeout{2};  // For the others to receive how the job ended.

JoinMessage join_of(const LaunchOptions& options, int64_t node) {
  return {.id = options.id,
          .nnodes = options.nnodes,
          .nproc = options.nproc,
          .node = node,
          .host = host_name()};
}

std::string text_of(const Endpoint& endpoint) {
  return concat(endpoint.host, ":", endpoint.port);
}

}  // namespace

std::vector<Message> NodeLink::take() {
  return std::exchange(inbox_, {});
}

std::unique_ptr<NodeLink> make_link(const LaunchOptions& options, EventLoop& loop) {
  if (options.nnodes == 1) return std::make_unique<CoordinatorLink>(options, loop, Descriptor());
  if (options.node_rank.value_or(0) > 0) return std::make_unique<MemberLink>(options, loop);
  std::optional<Descriptor> listener = listen_at(options.rendezvous);
  const int error = errno;
  if (listener) return std::make_unique<CoordinatorLink>(options, loop, std::move(*listener));
  // If the address is another host's, or already in use on this host, this node is a member.
  const bool member = error == EADDRNOTAVAIL || error == EADDRINUSE;
  TSR_CHECK(member && !options.node_rank, "node 0 cannot listen at --rdzv-endpoint ",
            text_of(options.rendezvous), " (", std::strerror(error),
            "); give an address of node 0's host and a free port");
  return std::make_unique<MemberLink>(options, loop);
}

MemberLink::MemberLink(const LaunchOptions& options, EventLoop& loop)
    : options_(options),
      loop_(loop),
      rendezvous_ends_(Clock::now() + options.rendezvous_timeout),
      next_try_(Clock::now()) {}

void MemberLink::send(const Message& message, Clock::time_point) {
  if (welcome_ && connection_) return connection_->send(message);
  // Before it is admitted, a node fails on its own.
  if (const auto* failed = std::get_if<FailedMessage>(&message)) give_up(failed->failure);
}

void MemberLink::step(Clock::time_point now) {
  constexpr std::chrono::seconds kLongestTry{5};
  if (over_) return;
  if (!connection_ && now >= next_try_) {
    connection_ =
        std::make_unique<Connection>(loop_, connect_to(options_.rendezvous), Connection::kOfMember);
    connection_->send(join_of(options_, options_.node_rank.value_or(-1)));
  }
  if (!connection_) return;
  for (const Message& message : connection_->take()) {
    receive(message, now);
    if (over_ || !connection_) return;
  }
  connection_->step(now);
  const std::optional<std::string> ended = connection_->ended();
  if (ended && welcome_) {
    return give_up({.kind = Failure::Kind::kNodeLost,
                    .host = options_.rendezvous.host,
                    .message = concat("the launcher of node 0 at ", text_of(options_.rendezvous),
                                      " is lost: ", *ended)});
  }
  if (ended) return try_again(*ended, now);
  if (!welcome_ && now - connection_->since() > kLongestTry) try_again("no answer", now);
}

Clock::time_point MemberLink::deadline() const {
  return connection_ ? connection_->deadline() : next_try_;
}

void MemberLink::finish() {
  connection_.reset();
}

void MemberLink::receive(const Message& message, Clock::time_point now) {
  if (std::holds_alternative<WelcomeMessage>(message)) {
    welcome_ = true;
  } else if (const auto* refusal = std::get_if<RefuseMessage>(&message)) {
    if (refusal->later) return try_again(refusal->reason, now);
    give_up({.kind = Failure::Kind::kRendezvous,
             .exit_code = 2,
             .message = concat("node 0 at ", text_of(options_.rendezvous),
                               " refused this launcher: ", refusal->reason)});
  } else if (!std::holds_alternative<PingMessage>(message)) {
    over_ = std::holds_alternative<EndMessage>(message);
    deliver(message);
  }
}

void MemberLink::try_again(const std::string& why, Clock::time_point now) {
  constexpr std::chrono::milliseconds kPause{250};
  connection_.reset();
  next_try_ = now + kPause;
  last_reason_ = why;
  if (now < rendezvous_ends_) return;
  give_up({.kind = Failure::Kind::kRendezvous,
           .message = concat("node 0 at ", text_of(options_.rendezvous),
                             " did not admit this launcher within ",
                             static_cast<double>(options_.rendezvous_timeout.count()) / 1000,
                             " s: ", last_reason_)});
}

void MemberLink::give_up(Failure failure) {
  over_ = true;
  deliver(EndMessage{std::move(failure)});
}

CoordinatorLink::CoordinatorLink(const LaunchOptions& options, EventLoop& loop, Descriptor listener)
    : options_(options),
      loop_(loop),
      listener_(std::move(listener)),
      coordinator_(
          options,
          [this](Coordinator::Peer peer, const Message& message) {
            if (peer == 0) return deliver(message);
            const auto found = connections_.find(peer);
            if (found == connections_.end()) return;
            found->second->send(message);
            if (std::holds_alternative<RefuseMessage>(message)) found->second->finish();
          },
          [this] { return new_master(); }, Clock::now()) {
  if (listener_.is_open()) loop_.watch(listener_.get(), POLLIN, [this] { accept(); });
  watch_members();
  coordinator_.receive(0, join_of(options, 0), Clock::now());
}

CoordinatorLink::~CoordinatorLink() {
  loop_.unwatch(members_loop_.descriptor());
  if (listener_.is_open()) loop_.unwatch(listener_.get());
}

void CoordinatorLink::send(const Message& message, Clock::time_point now) {
  coordinator_.receive(0, message, now);
  if (reservation_ && coordinator_.is_healthy()) reservation_.reset();
}

// Anyone may connect; connections that do not join are few and short-lived.
void CoordinatorLink::accept() {
  constexpr size_t kMostStrangers = 64;
  Descriptor socket = accept_from(listener_);
  const size_t most = static_cast<size_t>(options_.nnodes) + kMostStrangers;
  if (!socket.is_open() || connections_.size() >= most) return;
  const Coordinator::Peer peer = next_peer_++;
  connections_[peer] =
      std::make_unique<Connection>(members_loop_, std::move(socket), Connection::kOfCoordinator,
                                   [this, peer] { active_.push_back(peer); });
}

void CoordinatorLink::watch_members() {
  watch_again_.reset();
  loop_.watch(members_loop_.descriptor(), POLLIN, [this] { on_members(); });
}

// Thousands of nodes send hundreds of pings per second. The launcher does not wake up for each.
void CoordinatorLink::on_members() {
  members_loop_.wait(Clock::now());
  if (connections_.size() < kManyNodes || !active_.empty()) return;
  loop_.unwatch(members_loop_.descriptor());
  watch_again_ = Clock::now() + kPingBatch;
}

void CoordinatorLink::step(Clock::time_point now) {
  if (watch_again_ && now >= *watch_again_) watch_members();
  for (const Coordinator::Peer peer : std::exchange(active_, {})) step(peer, now);
  if (now >= next_check_) check_all(now);
  coordinator_.tick(now);
  if (reservation_ && coordinator_.is_healthy()) reservation_.reset();
}

// Pings and time-outs. A job has thousands of connections, so this is not done at every event.
void CoordinatorLink::check_all(Clock::time_point now) {
  next_check_ = now + kCheckInterval;
  std::vector<Coordinator::Peer> gone;
  for (const auto& [peer, connection] : connections_) {
    connection->step(now);
    if (should_close(peer, *connection, now)) gone.push_back(peer);
  }
  for (const Coordinator::Peer peer : gone) step(peer, now);
}

void CoordinatorLink::step(Coordinator::Peer peer, Clock::time_point now) {
  const auto at = connections_.find(peer);
  if (at == connections_.end()) return;
  Connection& connection = *at->second;
  receive(peer, connection, now);
  connection.step(now);
  if (!should_close(peer, connection, now)) return;
  coordinator_.lost(peer, connection.ended().value_or("it broke the protocol"), now);
  connections_.erase(peer);
}

void CoordinatorLink::receive(Coordinator::Peer peer, Connection& connection,
                              Clock::time_point now) {
  try {
    for (const Message& message : connection.take()) coordinator_.receive(peer, message, now);
  } catch (const CommError& error) {
    connection.break_off(error.what());
  }
}

// Closes a connection that has not joined once it is answered, or after a while.
bool CoordinatorLink::should_close(Coordinator::Peer peer, const Connection& connection,
                                   Clock::time_point now) const {
  constexpr std::chrono::seconds kLongestStranger{5};
  if (connection.ended()) return true;
  return now - connection.since() > kLongestStranger && !coordinator_.is_member(peer);
}

Clock::time_point CoordinatorLink::deadline() const {
  if (has_messages() || !active_.empty()) return Clock::now();
  const auto next = coordinator_.deadline().value_or(Clock::time_point::max());
  if (connections_.empty()) return next;
  return std::min({next, next_check_, watch_again_.value_or(next)});
}

void CoordinatorLink::finish() {
  const auto deadline = Clock::now() + kFinishTimeout;
  const auto is_waited_for = [&](const auto& entry) {
    return coordinator_.is_member(entry.first) && !entry.second->ended();
  };
  while (Clock::now() < deadline && std::ranges::any_of(connections_, is_waited_for)) {
    for (auto& [peer, connection] : connections_) {
      connection->finish();
      static_cast<void>(connection->take());
    }
    members_loop_.wait(deadline);
  }
}

MasterAddress CoordinatorLink::new_master() {
  const bool alone = options_.nnodes == 1;
  std::string address = options_.master_addr;
  const std::string own = alone ? "127.0.0.1" : options_.rendezvous.host;
  if (address.empty()) address = own;
  if (options_.master_port != 0) return {address, options_.master_port, secret_};
  do {
    reservation_.emplace(own);
  } while (reservation_->port() == last_port_);
  last_port_ = reservation_->port();
  return {address, last_port_, secret_};
}

}  // namespace tessera
