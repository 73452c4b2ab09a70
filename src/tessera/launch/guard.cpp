#include "tessera/launch/guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <set>

namespace tessera {
namespace {

constexpr int kPipe = 3;

// A record small enough to be written atomically: the group to add, or its negative to remove.
void write_record(int descriptor, int32_t record) {
  static_cast<void>(!write(descriptor, &record, sizeof(record)));
}

// Keeps nothing of the launcher: readers of its output must see the end, and its folder may go.
void close_all_but(int pipe) {
  setsid();
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard) dup2(nothing, standard);
  dup2(pipe, kPipe);
  close_range(kPipe + 1, ~0U, 0);
  static_cast<void>(!chdir("/"));
  prctl(PR_SET_NAME, "tessera-guard");
}

[[noreturn]] void watch_over(int pipe) {
  close_all_but(pipe);
  std::set<int32_t> groups;
  for (int32_t record = 0; read(kPipe, &record, sizeof(record)) == sizeof(record);) {
    if (record > 0) groups.insert(record);
    if (record < 0) groups.erase(-record);
  }
  for (const int32_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guard::Guard() {
  Pipe pipe = make_pipe();
  fcntl(pipe.reader.get(), F_SETFL, 0);  // Blocking: the guard only waits.
  pid_ = fork();
  if (pid_ < 0) throw_system_error("cannot start the guard process of the ranks");
  if (pid_ == 0) {
    pipe.writer.reset();
    watch_over(pipe.reader.get());
  }
  writer_ = std::move(pipe.writer);
}

Guard::~Guard() {
  writer_.reset();
  waitpid(pid_, nullptr, 0);
}

void Guard::add_own_group(int descriptor) {
  write_record(descriptor, getpid());
}

void Guard::remove(pid_t group) {
  write_record(descriptor(), -group);
}

}  // namespace tessera
