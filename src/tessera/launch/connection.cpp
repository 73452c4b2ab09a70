#include "tessera/launch/connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tessera/base/error.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr size_t kMostUnsent = size_t{1} << 20;

bool is_passing(int error) {
  return error == EAGAIN || error == EINTR || error == EINPROGRESS || error == ENOTCONN;
}

}  // namespace

Connection::Connection(EventLoop& loop, Descriptor socket, const Pace& pace,
                       std::function<void()> notify)
    : loop_(loop), socket_(std::move(socket)), pace_(pace), notify_(std::move(notify)) {
  watch();
}

Connection::~Connection() {
  loop_.unwatch(socket_.get());
}

void Connection::send(const Message& message) {
  if (ended_ || finished_) return;
  unsent_ += encode(message);
  if (unsent_.size() > kMostUnsent) return break_off("it does not read its messages");
  write_some();
  watch();
}

std::vector<Message> Connection::take() {
  return std::exchange(messages_, {});
}

void Connection::step(Clock::time_point now) {
  if (ended_) return;
  if (now - heard_ >= pace_.silence)
    return break_off(concat("no message for ", pace_.silence.count(), " s"));
  if (now - pinged_ < pace_.ping) return;
  pinged_ = now;
  if (unsent_.empty()) send(PingMessage{});
}

void Connection::finish() {
  if (finished_ || !unsent_.empty()) return;
  finished_ = true;
  shutdown(socket_.get(), SHUT_WR);
}

Clock::time_point Connection::deadline() const {
  if (ended_ || !messages_.empty()) return Clock::now();
  return std::min(pinged_ + pace_.ping, heard_ + pace_.silence);
}

void Connection::on_event() {
  write_some();
  read_some();
  watch();
  if (notify_ && (ended_ || !messages_.empty())) notify_();
}

void Connection::read_some() {
  std::array<char, 4096> bytes{};
  while (!ended_) {
    const ssize_t length = recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (length < 0 && is_passing(errno)) return;
    if (length < 0) return break_off(std::strerror(errno));
    if (length == 0) return break_off("its launcher has ended");
    heard_ = Clock::now();
    received_.append(bytes.data(), static_cast<size_t>(length));
    take_lines();
    if (static_cast<size_t>(length) < bytes.size()) return;  // No more has arrived yet.
  }
}

void Connection::take_lines() {
  try {
    size_t begin = 0;
    for (size_t end = 0; (end = received_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const Message message = decode(std::string_view(received_).substr(begin, end - begin));
      // Pings only show that the peer is there. So they wake nobody.
      if (!std::holds_alternative<PingMessage>(message)) messages_.push_back(message);
    }
    received_.erase(0, begin);
    if (received_.size() >= kLongestMessage) throw CommError("a line is too long");
  } catch (const CommError& error) {
    break_off(concat("it does not speak the launchers' protocol: ", error.what()));
  }
}

void Connection::write_some() {
  while (!ended_ && !unsent_.empty()) {
    const ssize_t length = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (length < 0 && is_passing(errno)) return;
    if (length < 0) return break_off(std::strerror(errno));
    unsent_.erase(0, static_cast<size_t>(length));
  }
}

void Connection::break_off(const std::string& why) {
  ended_ = why;
  unsent_.clear();
  loop_.unwatch(socket_.get());
}

void Connection::watch() {
  if (!ended_)
    loop_.watch(socket_.get(), unsent_.empty() ? POLLIN : POLLIN | POLLOUT, [this] { on_event(); });
}

}  // namespace tessera
