// watch_nodes NODES RANKS: how fast a large job notices lost ranks and nodes, and what that costs.
//
// Node 0 and node 1 are real launchers, each with RANKS processes that send heartbeats. The other
// nodes are connections of this process that speak the launchers' protocol. A real store gets the
// heartbeats of as many fake ranks as descriptors allow. Exit code 1 if a loss is noticed after
// more than 10 s. The shares of a core, which depend on the machine, should be below 1 %.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <thread>

#include "tessera/base/number_text.h"
#include "tessera/base/text.h"
#include "tessera/launch/connection.h"
#include "tessera/launch/heartbeat_pipe.h"
#include "tessera/launch/launcher.h"
#include "tessera/launch/socket.h"
#include "tessera/launch/store_server.h"
#include "tessera/launch/worker.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kWindow = 8s;  // In which processor time is measured.
constexpr Seconds kMostDelay = 10s;

bool good = true;

void report(const std::string& what, double value, const char* unit) {
  std::printf("%-52s %8.3f %s\n", what.c_str(), value, unit);
  std::fflush(stdout);
}

void report_delay(const std::string& what, Seconds delay) {
  good = good && delay <= kMostDelay;
  report(what, delay.count(), "s");
}

// A process that runs `body`.
pid_t start(const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

Seconds processor_time(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return Seconds(0);
  return Seconds(static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

// The children of a launcher that are ranks; its guard is not.
std::vector<pid_t> ranks_of(pid_t launcher) {
  std::vector<pid_t> ranks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = to_integer(entry.path().filename().native());
    if (!pid) continue;
    std::FILE* file = std::fopen((entry.path() / "stat").c_str(), "r");
    if (file == nullptr) continue;
    std::array<char, 512> text{};
    const bool read = std::fgets(text.data(), text.size(), file) != nullptr;
    std::fclose(file);
    const std::string_view line(text.data());
    const size_t name_end = line.rfind(") ");
    if (!read || name_end == std::string_view::npos || line.find("guard") < name_end) continue;
    if (split(line.substr(name_end + 2), ' ').at(1) == std::to_string(launcher)) {
      ranks.push_back(static_cast<pid_t>(*pid));
    }
  }
  return ranks;
}

// A job of many nodes, most of which are fake.
class Job {
 public:
  Job(int64_t nodes, int64_t ranks, const std::string& program)
      : options_{.command = {program, "rank"},
                 .nproc = ranks,
                 .nnodes = nodes,
                 .rendezvous = {"127.0.0.1", reservation_->port()},
                 .max_restarts = 100,
                 .grace = 1s},
        head_(start([&] { return run_launcher(0); })) {
    reservation_.reset();
    while (!is_listening()) std::this_thread::sleep_for(10ms);
    member_ = start([&] { return run_launcher(1); });
    for (int64_t node = 2; node < nodes; ++node) {
      connect(node);
      run_for(3s / static_cast<double>(nodes));  // Nodes do not ping at the same moment.
    }
    await_start(0);
  }
  ~Job() {
    kill(head_, SIGTERM);
    waitpid(head_, nullptr, 0);
    waitpid(member_, nullptr, 0);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  pid_t head() const { return head_; }
  pid_t member() const { return member_; }
  LaunchOptions options() const { return options_; }

  // Handles events for so long.
  void run_for(Seconds time) {
    const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
    while (Clock::now() < end) step(end);
  }
  /// The time until another node is told to stop, because of this kind of failure. Then all nodes
  /// start again.
  Seconds time_to_notice(Failure::Kind kind) {
    const auto begin = Clock::now();
    while (!stop_) step(Clock::now() + 1s);
    const Seconds taken = Clock::now() - begin;
    if (stop_->failure.kind != kind) {
      std::printf("another failure: %s\n", stop_->failure.message.c_str());
      good = false;
    }
    if (silent_) connect(*silent_);  // A new launcher on that node.
    silent_.reset();
    await_start(stop_->round + 1);
    return taken;
  }
  void silence(int64_t node) { silent_ = node; }

 private:
  int run_launcher(int64_t node) {
    LaunchOptions options = options_;
    options.node_rank = node;
    if (freopen("/dev/null", "w", stderr) == nullptr) return 1;
    return launch(options);
  }
  bool is_listening() const {
    const auto listener = listen_at(options_.rendezvous);
    return !listener;
  }
  void connect(int64_t node) {
    nodes_[node] =
        std::make_unique<Connection>(loop_, connect_to(options_.rendezvous), Connection::kOfMember);
    nodes_[node]->send(JoinMessage{.id = options_.id,
                                   .nnodes = options_.nnodes,
                                   .nproc = options_.nproc,
                                   .node = node,
                                   .host = "fake"});
  }
  void await_start(int64_t round) {
    while (started_ < options_.nnodes - 2 || round_ != round) step(Clock::now() + 1s);
    started_ = 0;
    stop_.reset();  // Each node is told to stop before it is told to start again.
    while (!all_send_heartbeats()) run_for(0.1s);
    run_for(1s);  // The first ones arrive.
  }
  // A rank that does has a second thread.
  bool all_send_heartbeats() const {
    for (const pid_t launcher : {head_, member_}) {
      const std::vector<pid_t> ranks = ranks_of(launcher);
      if (static_cast<int64_t>(ranks.size()) != options_.nproc) return false;
      for (const pid_t rank : ranks) {
        std::error_code gone;
        const std::filesystem::directory_iterator threads(concat("/proc/", rank, "/task"), gone);
        if (gone || std::distance(begin(threads), end(threads)) < 2) return false;
      }
    }
    return true;
  }
  void step(Clock::time_point end) {
    const auto now = Clock::now();
    loop_.wait(std::min(end, now + 50ms));
    for (auto& [node, connection] : nodes_) {
      for (const Message& message : connection->take()) handle(node, *connection, message);
      if (node != silent_) connection->step(Clock::now());
    }
    for (const int64_t node : std::exchange(refused_, {})) connect(node);
  }
  void handle(int64_t node, Connection& connection, const Message& message) {
    if (std::holds_alternative<RefuseMessage>(message)) refused_.push_back(node);
    if (const auto* begin = std::get_if<StartMessage>(&message)) {
      ++started_;
      round_ = begin->round;
      connection.send(HealthyMessage{begin->round});
    } else if (const auto* stop = std::get_if<StopMessage>(&message)) {
      if (!stop_) stop_ = *stop;
      connection.send(StoppedMessage{stop->round});
    }
  }

  std::optional<PortReservation> reservation_{"127.0.0.1"};
  LaunchOptions options_;
  pid_t head_ = 0;
  pid_t member_ = 0;
  EventLoop loop_;
  std::map<int64_t, std::unique_ptr<Connection>> nodes_;
  std::optional<int64_t> silent_;
  std::vector<int64_t> refused_;  // Try again, as real launchers do.
  std::optional<StopMessage> stop_;
  int64_t started_ = 0;
  int64_t round_ = -1;
};

// A store that gets the heartbeats of `ranks` ranks, in a process of its own.
class Store {
 public:
  explicit Store(int64_t ranks) : address_(StoreAddress::on_this_host(getpid())) {
    server_ = start([&] {
      const StoreServer server(address_, "");
      pause();
      return 0;
    });
    for (int64_t rank = 0; rank < ranks; ++rank) {
      clients_.push_back(address_.connect(Clock::now() + 10s));
      ask({.op = StoreOp::kHello, .fields = {std::string(kStoreVersion), ""}}, clients_.back());
    }
  }
  ~Store() {
    kill(server_, SIGKILL);
    waitpid(server_, nullptr, 0);
  }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  pid_t server() const { return server_; }
  void beat_for(Seconds time) {
    const auto begin = Clock::now();
    const Seconds pause =
        Seconds(store_heartbeat_interval(size(), true)) / static_cast<double>(size());
    for (int64_t i = 0; i * pause < time; ++i) {
      std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(i * pause));
      const std::string key = concat("heartbeat/", i % size());
      const std::string beat(150, 'x');  // As long as a real one.
      ask({.op = StoreOp::kSet, .fields = {key, beat}}, clients_[static_cast<size_t>(i % size())]);
    }
  }

 private:
  int64_t size() const { return static_cast<int64_t>(clients_.size()); }
  static void ask(const StoreFrame& request, const Descriptor& client) {
    const std::string bytes = to_bytes(request);
    std::string answer;
    if (send(client.get(), bytes.data(), bytes.size(), 0) < 0) std::abort();
    while (!take_frame(answer)) {
      std::array<char, 256> piece{};
      pollfd waiting{.fd = client.get(), .events = POLLIN, .revents = 0};
      poll(&waiting, 1, 1000);
      const ssize_t length = recv(client.get(), piece.data(), piece.size(), 0);
      if (length > 0) answer.append(piece.data(), static_cast<size_t>(length));
    }
  }

  StoreAddress address_;
  pid_t server_ = 0;
  std::vector<Descriptor> clients_;
};

// A rank that trains on nothing.
int run_rank() {
  send_heartbeats([] { return "in all_reduce #17 of group dp"; });
  report_healthy();
  while (true) pause();
}

template <class Work>
double share_of(pid_t pid, const Work& work) {
  const Seconds before = processor_time(pid);
  const auto begin = Clock::now();
  work();
  return (processor_time(pid) - before) / Seconds(Clock::now() - begin) * 100;
}

void watch(int64_t nodes, int64_t ranks, const std::string& program) {
  Job job(nodes, ranks, program);
  const Seconds before = processor_time(job.member());
  const auto begin = Clock::now();
  report("launcher of node 0: share of a core", share_of(job.head(), [&] { job.run_for(kWindow); }),
         "%");
  report("launcher of another node: share of a core",
         (processor_time(job.member()) - before) / Seconds(Clock::now() - begin) * 100, "%");
  kill(ranks_of(job.member()).at(0), SIGKILL);
  report_delay("a killed rank is noticed after", job.time_to_notice(Failure::Kind::kRank));
  kill(ranks_of(job.member()).at(0), SIGSTOP);
  report_delay("a stopped rank is noticed after", job.time_to_notice(Failure::Kind::kHang));
  job.silence(nodes - 1);
  report_delay("a silent node is noticed after", job.time_to_notice(Failure::Kind::kNodeLost));
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[1] == "rank") return run_rank();
  const int64_t nodes = to_integer(words.at(1)).value();
  const int64_t ranks = to_integer(words.at(2)).value();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  signal(SIGPIPE, SIG_IGN);
  std::printf("%s ranks on %s nodes\n", with_thousands(nodes * ranks).c_str(),
              with_thousands(nodes).c_str());
  watch(nodes, ranks, std::filesystem::read_symlink("/proc/self/exe"));
  const auto room = static_cast<int64_t>(files.rlim_max / 2);
  Store store(std::min(nodes * ranks, room));
  report(concat("store with ", with_thousands(std::min(nodes * ranks, room)),
                " ranks: share of a core"),
         share_of(store.server(), [&] { store.beat_for(kWindow); }), "%");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  return tessera::run({argv, argv + argc});
}
