#include "tessera/launch/worker.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "tessera/base/environment.h"
#include "tessera/base/error_words.h"
#include "tessera/base/text.h"
#include "tessera/launch/heartbeat_pipe.h"

namespace tessera {
namespace {

constexpr const char* kHealthVariable = "TESSERA_HEALTH_FD";
constexpr const char* kErrorVariable = "TORCHELASTIC_ERROR_FILE";

// The descriptor may have been reused; only a pipe can be the launcher's.
bool is_pipe(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
}

std::optional<int> health_pipe() {
  const char* text = std::getenv(kHealthVariable);
  const auto number = to_integer(text == nullptr ? "" : text);
  if (!number || *number < 0 || *number > INT_MAX) return std::nullopt;
  const int descriptor = static_cast<int>(*number);
  return is_pipe(descriptor) ? std::optional(descriptor) : std::nullopt;
}

// A launcher that is gone must not end this process: discards the SIGPIPE raised here. False if it
// is gone.
bool write_without_signal(int descriptor, std::string_view bytes) {
  sigset_t broken_pipe;
  sigset_t before;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  const bool gone = write(descriptor, bytes.data(), bytes.size()) < 0 && errno == EPIPE;
  const timespec at_once{};
  if (gone) sigtimedwait(&broken_pipe, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return !gone;
}

// Never destroyed: its thread may outlive main.
struct Heartbeats {
  std::mutex mutex;
  std::function<std::string()> place;
  std::optional<int> pipe;
  bool told_health = false;
};

Heartbeats& heartbeats() {
  static auto* const instance = new Heartbeats;
  return *instance;
}

// Until the process ends or the launcher is gone. A full pipe means that the launcher was stopped;
// then heartbeats are dropped.
void run_heartbeats(int descriptor, std::chrono::milliseconds pause) {
  const auto line = [] {
    const std::lock_guard lock(heartbeats().mutex);
    return heartbeat_line(heartbeats().place());
  };
  while (write_without_signal(descriptor, line())) std::this_thread::sleep_for(pause);
}

std::string error_text(std::string_view message) {
  using std::chrono::duration_cast;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = duration_cast<std::chrono::seconds>(now).count();
  const auto micros = duration_cast<std::chrono::microseconds>(now).count();
  const nlohmann::json extra{{"py_callstack", message},  // torchrun shows this as the traceback.
                             {"timestamp", std::to_string(seconds)},
                             {"timestamp_us", std::to_string(micros)}};  // torchrun ignores it.
  const nlohmann::json error{{"message", {{"message", message}, {"extraInfo", extra}}}};
  return error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// False if the file cannot be written; an earlier report stays.
bool write_new_file(const char* path, std::string_view text) {
  const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno == EEXIST;
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written <= 0) break;
    text.remove_prefix(static_cast<size_t>(written));
  }
  close(file);
  return text.empty();
}

std::string message_of_current_exception() {
  const std::exception_ptr current = std::current_exception();
  if (!current) return "std::terminate was called without an exception";
  try {
    std::rethrow_exception(current);
  } catch (const std::exception& error) {
    return error_words(error);
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

std::terminate_handler previous_handler = nullptr;

[[noreturn]] void report_and_end() {
  report_error(message_of_current_exception());
  if (previous_handler != nullptr) previous_handler();
  std::abort();
}

}  // namespace

void send_heartbeats(std::function<std::string()> place) {
  Heartbeats& own = heartbeats();
  const std::lock_guard lock(own.mutex);
  own.place = std::move(place);
  if (own.pipe) {  // The launcher knows the new place at once.
    write_without_signal(*own.pipe, heartbeat_line(own.place()));
    return;
  }
  own.pipe = health_pipe();
  if (!own.pipe) return;
  unsetenv(kHealthVariable);  // Children of this rank do not inherit the pipe.
  fcntl(*own.pipe, F_SETFD, FD_CLOEXEC);
  fcntl(*own.pipe, F_SETFL, O_NONBLOCK);
  const auto silence = silence_setting(process_environment()).value_or(kDefaultSilence);
  std::thread(run_heartbeats, *own.pipe, heartbeat_interval(silence)).detach();
}

void report_healthy() {
  Heartbeats& own = heartbeats();
  const std::lock_guard lock(own.mutex);
  if (own.pipe && !own.told_health) {
    own.told_health = true;
    write_without_signal(*own.pipe, "1\n");
  }
  const std::optional<int> unused = health_pipe();
  unsetenv(kHealthVariable);
  if (!unused) return;
  write_without_signal(*unused, "1");
  close(*unused);
}

bool has_watching_launcher() {
  const std::lock_guard lock(heartbeats().mutex);
  return heartbeats().pipe.has_value();
}

bool report_error(std::string_view message) noexcept {
  try {
    const char* path = std::getenv(kErrorVariable);
    return path != nullptr && *path != '\0' && write_new_file(path, error_text(message));
  } catch (...) {
    return false;
  }
}

void report_uncaught() {
  static const bool installed = [] {
    previous_handler = std::set_terminate(report_and_end);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace tessera
