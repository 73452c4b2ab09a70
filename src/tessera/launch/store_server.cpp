#include "tessera/launch/store_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/launch/socket.h"

namespace tessera {
namespace {

constexpr size_t kLongestHello = 4096;
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::hours kLongTime{1};

StoreFrame ok(std::vector<std::string> fields = {}) {
  return {.op = StoreOp::kOk, .fields = std::move(fields)};
}

StoreFrame refused(const std::string& why) {
  return {.op = StoreOp::kRefused, .fields = {why}};
}

// Takes the same time for every wrong secret.
bool are_equal(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

// The number of fields of a request; further fields come in groups of `step`.
struct Form {
  size_t least;
  size_t step;
};
Form form_of(StoreOp op) {
  switch (op) {
    case StoreOp::kSet:
      return {2, 2};
    case StoreOp::kGet:
    case StoreOp::kWait:
      return {1, 1};
    case StoreOp::kCompareSet:
      return {3, 0};
    case StoreOp::kAdd:
    case StoreOp::kAppend:
      return {2, 0};
    case StoreOp::kDelete:
      return {1, 0};
    case StoreOp::kCheck:
      return {0, 1};
    default:
      return {0, 0};
  }
}

bool has_form(const StoreFrame& request) {
  const auto [least, step] = form_of(request.op);
  const size_t count = request.fields.size();
  if (step == 0) return count == least;
  return count >= least && (count - least) % step == 0;
}

bool waits(StoreOp op) {
  return op == StoreOp::kGet || op == StoreOp::kWait;
}

bool adds_keys(StoreOp op) {
  return op == StoreOp::kSet || op == StoreOp::kCompareSet || op == StoreOp::kAdd ||
         op == StoreOp::kAppend;
}

}  // namespace

StoreServer::StoreServer(const StoreAddress& address, std::string secret)
    : address_(address),
      secret_(std::move(secret)),
      listener_(address.listen()),
      wake_up_(make_pipe()) {
  watch_listener();
  loop_.watch(wake_up_.reader.get(), POLLIN, [this] { stopping_ = true; });
  thread_ = std::thread([this] { run(); });
}

StoreServer::~StoreServer() {
  wake_up_.writer.reset();  // The reader sees end of file.
  thread_.join();
}

void StoreServer::run() {
  while (!stopping_) {
    loop_.wait(next_deadline());
    if (changed_) serve_pending();
    drop_late();
    if (accept_again_ && Clock::now() >= *accept_again_) watch_listener();
  }
}

void StoreServer::watch_listener() {
  accept_again_.reset();
  loop_.watch(listener_.get(), POLLIN, [this] { accept_clients(); });
}

void StoreServer::watch(const Client& client) {
  loop_.watch(client.socket.get(), client.is_full ? POLLIN | POLLOUT : POLLIN,
              [this, number = client.number] { on_event(number); });
}

void StoreServer::accept_clients() {
  while (true) {
    Descriptor socket = accept_from(listener_);
    if (!socket.is_open()) {
      const bool full = errno == EMFILE || errno == ENFILE;
      if (full && !drop_oldest_stranger()) {  // Otherwise the loop would spin.
        loop_.unwatch(listener_.get());
        accept_again_ = Clock::now() + kPause;
      }
      return;
    }
    if (!address_.trusts(socket)) continue;
    if (strangers_.size() == kMostStrangers) drop_oldest_stranger();
    const Number number = next_number_++;
    strangers_.insert(number);
    Client client{.number = number, .socket = std::move(socket), .since = Clock::now()};
    watch(clients_.emplace(number, std::move(client)).first->second);
  }
}

void StoreServer::on_event(Number number) {
  Client& client = clients_.at(number);
  try {
    read_some(client);
    take_requests(client);
    write_some(client);
  } catch (const Error&) {  // It is gone, or sent an invalid request.
    drop(number);
  }
}

void StoreServer::read_some(Client& client) {
  std::array<char, 65536> piece{};
  const ssize_t count = recv(client.socket.get(), piece.data(), piece.size(), 0);
  if (count > 0) {
    client.received.append(piece.data(), static_cast<size_t>(count));
  } else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    throw CommError("a client is gone");
  }
}

void StoreServer::take_requests(Client& client) {
  while (!waiting_.contains(client.number)) {
    const auto request =
        take_frame(client.received, client.is_member ? kLongestStoreFrame : kLongestHello);
    if (!request) return;
    if (client.is_member) {
      answer(client, *request);
    } else {
      admit(client, *request);
    }
  }
}

void StoreServer::admit(Client& client, const StoreFrame& hello) {
  if (hello.op != StoreOp::kHello || hello.fields.size() != 2 || hello.fields[0] != kStoreVersion) {
    throw DataError("a client without kHello");
  }
  client.is_member = secret_.empty() || are_equal(hello.fields[1], secret_);
  if (client.is_member) strangers_.erase(client.number);
  client.unsent +=
      to_bytes(client.is_member ? ok()
                                : refused("its secret differs; give every rank of the job "
                                          "the same TESSERA_JOB_SECRET"));
}

void StoreServer::answer(Client& client, const StoreFrame& request) {
  if (!has_form(request)) throw DataError("a request with wrong fields");
  if (!waits(request.op)) {
    client.unsent += to_bytes(change(request));
    return;
  }
  if (const auto now = try_read(request)) {
    client.unsent += to_bytes(*now);
    return;
  }
  const auto time = to_integer(request.fields[0]);
  const int64_t most = std::chrono::milliseconds(24 * kLongTime).count();
  const std::chrono::milliseconds patience(std::clamp<int64_t>(time.value_or(0), 0, most));
  waiting_.insert({client.number, {request, Clock::now() + patience}});
}

// The answer if all keys exist.
std::optional<StoreFrame> StoreServer::try_read(const StoreFrame& request) const {
  StoreFrame found = ok();
  for (size_t i = 1; i < request.fields.size(); ++i) {
    const auto at = values_.find(request.fields[i]);
    if (at == values_.end()) return std::nullopt;
    if (request.op == StoreOp::kGet) found.fields.push_back(at->second);
  }
  return found;
}

StoreFrame StoreServer::change(const StoreFrame& request) {
  const auto& fields = request.fields;
  changed_ = changed_ || adds_keys(request.op);
  switch (request.op) {
    case StoreOp::kSet:
      for (size_t i = 0; i < fields.size(); i += 2) values_[fields[i]] = fields[i + 1];
      return ok();
    case StoreOp::kCompareSet: {
      const auto at = values_.find(fields[0]);
      // As in c10d's stores, a missing key equals an empty value.
      if (at == values_.end() && !fields[1].empty()) return ok({fields[1]});
      if (at == values_.end() || at->second == fields[1]) values_[fields[0]] = fields[2];
      return ok({values_[fields[0]]});
    }
    case StoreOp::kAdd: {
      std::string& value = values_.try_emplace(fields[0], "0").first->second;
      const auto present = to_integer(value);
      const auto more = to_integer(fields[1]);
      int64_t sum = 0;
      if (!present || !more || __builtin_add_overflow(*present, *more, &sum)) {
        return refused(concat("'", fields[0], "' does not hold a number to add to"));
      }
      value = std::to_string(sum);
      return ok({value});
    }
    case StoreOp::kAppend:
      values_[fields[0]] += fields[1];
      return ok();
    case StoreOp::kDelete:
      return ok({values_.erase(fields[0]) > 0 ? "1" : "0"});
    case StoreOp::kCheck: {
      const auto exists = [&](const std::string& key) { return values_.contains(key); };
      return ok({std::ranges::all_of(fields, exists) ? "1" : "0"});
    }
    case StoreOp::kCount:
      return ok({std::to_string(values_.size())});
    default:
      throw DataError("not a request");
  }
}

void StoreServer::serve_pending() {
  changed_ = false;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto found = try_read(at->second.request);
    if (!found) {
      ++at;
      continue;
    }
    Client& client = clients_.at(at->first);
    at = waiting_.erase(at);
    client.unsent += to_bytes(*found);
    write_some(client);
  }
}

// Sends the rest when the socket becomes writable.
void StoreServer::write_some(Client& client) {
  while (!client.unsent.empty()) {
    const ssize_t count =
        send(client.socket.get(), client.unsent.data(), client.unsent.size(), MSG_NOSIGNAL);
    if (count < 0) break;  // If it is gone, reading shows it.
    client.unsent.erase(0, static_cast<size_t>(count));
  }
  if (client.is_full == !client.unsent.empty()) return;
  client.is_full = !client.unsent.empty();
  watch(client);
}

void StoreServer::drop_late() {
  const auto now = Clock::now();
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (now < at->second.deadline) {
      ++at;
      continue;
    }
    Client& client = clients_.at(at->first);
    at = waiting_.erase(at);
    client.unsent += to_bytes({.op = StoreOp::kTimeout});
    write_some(client);
  }
  // The oldest come first.
  while (!strangers_.empty() && now >= clients_.at(*strangers_.begin()).since + kHelloTime) {
    drop_oldest_stranger();
  }
}

void StoreServer::drop(Number number) {
  const auto at = clients_.find(number);
  loop_.unwatch(at->second.socket.get());
  strangers_.erase(number);
  waiting_.erase(number);
  clients_.erase(at);
}

bool StoreServer::drop_oldest_stranger() {
  if (strangers_.empty()) return false;
  drop(*strangers_.begin());
  return true;
}

Clock::time_point StoreServer::next_deadline() const {
  auto next = accept_again_.value_or(Clock::now() + kLongTime);
  if (!strangers_.empty()) {
    next = std::min(next, clients_.at(*strangers_.begin()).since + kHelloTime);
  }
  for (const auto& [number, pending] : waiting_) next = std::min(next, pending.deadline);
  return next;
}

}  // namespace tessera
