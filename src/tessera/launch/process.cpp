#include "tessera/launch/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "tessera/base/descriptor.h"
#include "tessera/base/text.h"
#include "tessera/launch/guard.h"

namespace tessera {
namespace {

constexpr int kNotExecutable = 126;  // As in shells.
constexpr int kNotFound = 127;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

void default_signals() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The parent may have died between fork and prctl; then no signal would arrive.
void die_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(128 + SIGKILL);
}

[[noreturn]] void become(const ProcessSpec& spec, pid_t parent, char* const* arguments,
                         char* const* environment) {
  setpgid(0, 0);
  die_with(parent);
  if (spec.guard >= 0) Guard::add_own_group(spec.guard);
  dup2(open("/dev/null", O_RDONLY),
       STDIN_FILENO);  // A background group cannot read a terminal.
  dup2(spec.out, STDOUT_FILENO);
  dup2(spec.err, STDERR_FILENO);
  if (spec.kept >= 0) fcntl(spec.kept, F_SETFD, 0);
  default_signals();
  execve(spec.path.c_str(), arguments, environment);
  const int error = errno;
  dprintf(STDERR_FILENO, "tessera run: cannot start '%s': %s\n", spec.path.c_str(),
          std::strerror(error));
  _exit(error == ENOENT ? kNotFound : kNotExecutable);
}

bool is_program(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return false;
  if (S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0) return true;
  errno = EACCES;
  return false;
}

}  // namespace

Process::Process(const ProcessSpec& spec) {
  const std::vector<char*> arguments = pointers(spec.arguments);
  const std::vector<char*> environment = pointers(spec.environment);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw_system_error("cannot start a process for a rank");
  if (pid_ == 0) become(spec, parent, arguments.data(), environment.data());
  setpgid(pid_, pid_);  // Also here, so that the group exists from now on in any case.
}

void Process::collect() {
  while (!gone_) {
    int status = 0;
    const pid_t ended = waitpid(-pid_, &status, WNOHANG);
    if (ended == 0) return;
    if (ended < 0 && errno != EINTR) gone_ = true;
    if (ended == pid_) status_ = status;
  }
}

// "17 (name) T …", where the name may have any characters.
char Process::state() const {
  std::ifstream file(concat("/proc/", pid_, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");
  return name_end == std::string::npos ? '?' : text.at(name_end + 2);
}

void Process::signal(int number) {
  collect();  // The number of a finished group may be reused.
  if (!gone_) kill(-pid_, number);
}

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return is_program(name) ? std::optional(name) : std::nullopt;
  }
  const char* path = std::getenv("PATH");
  int error = ENOENT;
  for (const std::string_view folder : split(path == nullptr ? "/bin:/usr/bin" : path, ':')) {
    std::string candidate = concat(folder.empty() ? "." : folder, "/", name);
    if (is_program(candidate)) return candidate;
    if (errno == EACCES) error = EACCES;
  }
  errno = error;
  return std::nullopt;
}

}  // namespace tessera
