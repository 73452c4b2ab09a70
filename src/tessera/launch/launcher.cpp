#include "tessera/launch/launcher.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iostream>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/launch/link.h"
#include "tessera/launch/node.h"

namespace tessera {
namespace {

constexpr int kNotExecutable = 126;  // As in shells.
constexpr int kNotFound = 127;

// Signals to the launcher, as a descriptor. Signals that nohup or a shell ignores stay ignored.
class Signals {
 public:
  Signals() {
    signal(SIGPIPE, SIG_IGN);
    sigset_t wanted;
    sigemptyset(&wanted);
    for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      if (number == SIGCHLD || action.sa_handler != SIG_IGN) sigaddset(&wanted, number);
    }
    signal(SIGCHLD, SIG_DFL);  // If ignored, waitpid would not tell how ranks end.
    sigprocmask(SIG_BLOCK, &wanted, &before_);
    descriptor_ = checked(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK),
                          "cannot create a descriptor for signals");
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int descriptor() const { return descriptor_.get(); }
  /// The signals received, except SIGCHLD.
  std::vector<int> take() const {
    std::vector<int> numbers;
    signalfd_siginfo info{};
    while (read(descriptor(), &info, sizeof(info)) == sizeof(info)) {
      if (info.ssi_signo != SIGCHLD) numbers.push_back(static_cast<int>(info.ssi_signo));
    }
    return numbers;
  }

 private:
  sigset_t before_{};
  Descriptor descriptor_;
};

class Launcher {
 public:
  Launcher(const LaunchOptions& options, const std::string& program)
      : options_(options),
        screen_(options, loop_),
        link_(make_link(options, loop_)),
        node_(options, program, loop_, guard_, screen_,
              [this](const Message& message) { link_->send(message, Clock::now()); }) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // Orphans of ranks become our children.
    loop_.watch(signals_.descriptor(), POLLIN, [this] { on_signal(); });
  }

  int run() {
    while (true) {
      step();
      if (const auto code = node_.exit_code()) {
        link_->finish();
        return *code;
      }
      loop_.wait(deadline());
    }
  }

  /// After the last rank: waits for readers of the output.
  void flush() {
    const auto patience = node_.is_interrupted() ? std::chrono::seconds{1} : std::chrono::hours{24};
    screen_.out().flush(Clock::now() + patience);
    screen_.err().flush(Clock::now() + patience);
  }

 private:
  void step() {
    const auto now = Clock::now();
    node_.step(now);  // Reports local events before handling messages.
    link_->step(now);
    for (const Message& message : link_->take()) node_.handle(message, now);
    node_.step(now);
    // Nobody reads the ranks' output: they end like programs whose reader is gone.
    if (screen_.out().is_broken() && !node_.is_interrupted()) node_.interrupt(SIGPIPE, now);
  }

  void on_signal() {
    for (const int number : signals_.take()) {
      if (number == SIGUSR1) {
        node_.pass_on(number);
      } else {
        node_.interrupt(number, Clock::now());
      }
    }
  }

  Clock::time_point deadline() const {
    const auto longest = Clock::now() + options_.monitor_interval;
    return std::min({longest, link_->deadline(), node_.deadline()});
  }

  const LaunchOptions& options_;
  Signals signals_;  // First, so that the guard starts with signals blocked.
  Guard guard_;
  EventLoop loop_;
  Screen screen_;
  std::unique_ptr<NodeLink> link_;
  Node node_;
};

int explain_missing(const std::string& program, int error) {
  const bool found = error != ENOENT;
  std::cerr << "tessera run: cannot start '" << visible(program)
            << "': " << (found ? "it is not an executable file" : "there is no such program")
            << "\n";
  return found ? kNotExecutable : kNotFound;
}

}  // namespace

int launch(const LaunchOptions& options) {
  check(options);
  const auto program = find_program(options.command.front());
  if (!program) return explain_missing(options.command.front(), errno);
  Launcher launcher(options, *program);
  const int code = launcher.run();
  launcher.flush();
  return code;
}

}  // namespace tessera
