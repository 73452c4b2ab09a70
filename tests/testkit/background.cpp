#include "tests/testkit/background.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <stdexcept>

namespace tessera::testkit {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTimeout{60};  // Enough for two busy cores.

struct Ends {
  int reader;
  int writer;
};

Ends make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return {ends[0], ends[1]};
}

[[noreturn]] void become(const std::vector<std::string>& words,
                         const std::map<std::string, std::string>& variables, int out, int err,
                         int lifeline) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  fcntl(lifeline, F_SETFD, 0);
  execv(arguments[0], arguments.data());
  _exit(127);
}

// Appends the available output; false at its end.
bool read_into(int descriptor, std::string& text) {
  std::array<char, 65536> bytes{};
  const ssize_t length = read(descriptor, bytes.data(), bytes.size());
  if (length > 0) text.append(bytes.data(), static_cast<size_t>(length));
  return length > 0;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

bool is_readable(int descriptor, std::chrono::seconds timeout) {
  pollfd polled{descriptor, POLLIN, 0};
  return poll(&polled, 1, static_cast<int>(timeout.count() * 1000)) == 1;
}

}  // namespace

Background::Background(const std::vector<std::string>& words,
                       const std::map<std::string, std::string>& variables) {
  const Ends out = make_pipe();
  const Ends err = make_pipe();
  const Ends lifeline = make_pipe();
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("no process");
  if (pid_ == 0) become(words, variables, out.writer, err.writer, lifeline.writer);
  for (const int writer : {out.writer, err.writer, lifeline.writer}) close(writer);
  out_ = out.reader;
  err_ = err.reader;
  lifeline_ = lifeline.reader;
}

Background::~Background() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int descriptor : {out_, err_, lifeline_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

void Background::signal(int number) const {
  kill(pid_, number);
}

bool Background::read_more(int milliseconds) {
  std::array<pollfd, 2> polled{pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if (poll(polled.data(), polled.size(), milliseconds) <= 0) return false;
  const auto take = [](const pollfd& one, int& descriptor, std::string& text) {
    if (one.revents == 0 || read_into(descriptor, text)) return;
    close(descriptor);
    descriptor = -1;
  };
  take(polled[0], out_, seen_.out);
  take(polled[1], err_, seen_.err);
  return true;
}

void Background::await(const std::string& text, size_t times) {
  const auto deadline = Clock::now() + kTimeout;
  while (count_of(seen_.out, text) + count_of(seen_.err, text) < times) {
    if ((out_ < 0 && err_ < 0) || Clock::now() > deadline) {
      FAIL() << "'" << text << "' did not come:\n" << seen_.out << seen_.err;
    }
    read_more(1000);
  }
}

Finished Background::finish() {
  const auto deadline = Clock::now() + kTimeout;
  while ((out_ >= 0 || err_ >= 0) && Clock::now() < deadline) read_more(1000);
  if (out_ >= 0 || err_ >= 0) {
    ADD_FAILURE() << "it does not end:\n" << seen_.out << seen_.err;
    kill(pid_, SIGKILL);
  }
  int status = 0;
  rusage usage{};
  wait4(pid_, &status, 0, &usage);
  reaped_ = true;
  peak_kib_ = usage.ru_maxrss;
  seen_.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return seen_;
}

bool Background::leaves_nobody() {
  char byte = 0;
  return is_readable(lifeline_, kTimeout) && read(lifeline_, &byte, 1) == 0;
}

bool has_ended(pid_t pid) {
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) return true;
  const bool ended = is_readable(descriptor, kTimeout);
  close(descriptor);
  return ended;
}

}  // namespace tessera::testkit
