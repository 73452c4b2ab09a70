#include "tessera/launch/store_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "tessera/base/check.h"

namespace tessera {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr std::chrono::seconds kGrace{10};  // Extra time for a busy store.

// Whether the event occurred before the deadline.
bool wait_for(const Descriptor& socket, short events, Time deadline) {
  pollfd waiting{.fd = socket.get(), .events = events, .revents = 0};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    const int ready =
        poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left.count(), 3'600'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

StoreClient::StoreClient(const StoreAddress& address, const std::string& secret,
                         Milliseconds timeout)
    : place_(address.to_string()),
      socket_(address.connect(std::chrono::steady_clock::now() + timeout)) {
  const StoreFrame answer =
      ask({.op = StoreOp::kHello, .fields = {std::string(kStoreVersion), secret}}, timeout);
  TSR_CHECK(answer.op == StoreOp::kOk, "the store at ", place_, " refused this rank: ",
            answer.fields.empty() ? "no reason was given" : answer.fields.front());
}

StoreFrame StoreClient::ask(const StoreFrame& request, Milliseconds patience) {
  const std::lock_guard lock(mutex_);
  if (!socket_.is_open())
    throw CommError(concat("the connection to the store at ", place_, " was lost before"));
  try {
    return exchange(request, patience);
  } catch (...) {
    socket_.reset();  // A late answer would be mistaken for the next one.
    throw;
  }
}

StoreFrame StoreClient::exchange(const StoreFrame& request, Milliseconds patience) {
  const Time deadline = std::chrono::steady_clock::now() + patience + kGrace;
  const std::string bytes = to_bytes(request);
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count =
        send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count > 0) {
      sent += static_cast<size_t>(count);
    } else if (!would_block() || !wait_for(socket_, POLLOUT, deadline)) {
      throw CommError(concat("the store at ", place_, " is gone"));
    }
  }
  std::array<char, 65536> piece{};
  while (true) {
    if (auto frame = take_frame(received_)) return std::move(*frame);
    const ssize_t count = recv(socket_.get(), piece.data(), piece.size(), 0);
    if (count > 0) {
      received_.append(piece.data(), static_cast<size_t>(count));
    } else if (count == 0 || !would_block()) {
      throw CommError(concat("the store at ", place_, " is gone"));
    } else if (!wait_for(socket_, POLLIN, deadline)) {
      throw CommError(concat("the store at ", place_, " does not answer"));
    }
  }
}

}  // namespace tessera
