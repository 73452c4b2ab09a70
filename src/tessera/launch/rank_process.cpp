#include "tessera/launch/rank_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "tessera/base/text.h"
#include "tessera/launch/signal_handlers.h"

namespace tessera {
namespace {

constexpr size_t kTailLines = 8;
constexpr size_t kLongestTailLine = 200;

int64_t microseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::unique_ptr<RankStream> stream(const RankSpec& spec, EventLoop& loop, Sink& sink,
                                   std::string prefix) {
  if (spec.foreground || !spec.log.empty()) return nullptr;
  return std::make_unique<RankStream>(loop, sink, std::move(prefix));
}

}  // namespace

RankStream::RankStream(EventLoop& loop, Sink& sink, std::string prefix)
    : loop_(loop), sink_(sink), lines_(std::move(prefix)) {
  loop_.watch(pipe_.reader.get(), POLLIN, [this] { on_event(); });
}

void RankStream::step() {
  if (!paused_ || sink_.is_full()) return;
  paused_ = false;
  loop_.watch(pipe_.reader.get(), POLLIN, [this] { on_event(); });
}

void RankStream::on_event() {
  if (sink_.is_full()) {
    paused_ = true;  // The rank waits until the screen's reader catches up.
    loop_.unwatch(pipe_.reader.get());
  } else if (read_some() == Got::kEnd) {
    close();
  }
}

void RankStream::drain() {
  constexpr int kMostReads = 8;  // More than a pipe holds; a process may still be writing.
  for (int i = 0; i < kMostReads && is_open(); ++i) {
    const Got got = read_some();
    if (got == Got::kNothing) return;
    if (got == Got::kEnd) close();
  }
}

RankStream::Got RankStream::read_some() {
  std::array<char, size_t{16} << 10> bytes{};
  const ssize_t length = read(pipe_.reader.get(), bytes.data(), bytes.size());
  if (length < 0 && (errno == EAGAIN || errno == EINTR)) return Got::kNothing;
  if (length <= 0) return Got::kEnd;
  const std::string_view text(bytes.data(), static_cast<size_t>(length));
  tail_.add(text);
  sink_.write(lines_.add(text));
  return Got::kSome;
}

void RankStream::close() {
  if (!is_open()) return;
  loop_.unwatch(pipe_.reader.get());
  pipe_.reader.reset();
  sink_.write(lines_.finish());
}

RankProcess::RankProcess(const RankSpec& spec, EventLoop& loop, Guard& guard, Screen& screen)
    : spec_(spec),
      loop_(loop),
      guard_(guard),
      out_(stream(spec, loop, screen.out(), screen.out_prefix(spec.rank))),
      err_(stream(spec, loop, screen.err(), screen.err_prefix(spec.rank))),
      process_(start()) {
  health_.writer.reset();
  if (out_) out_->writer().reset();
  if (err_) err_->writer().reset();
  loop_.watch(health_.reader.get(), POLLIN, [this] { read_health(); });
}

RankProcess::~RankProcess() {
  loop_.unwatch(health_.reader.get());
}

Process RankProcess::start() {
  unlink(spec_.error_file.c_str());  // Left by an earlier job with the same folder.
  const Descriptor out_end = out_ ? Descriptor() : open_end(STDOUT_FILENO, ".out");
  const Descriptor err_end = err_ ? Descriptor() : open_end(STDERR_FILENO, ".err");
  ProcessSpec process{.path = spec_.program,
                      .arguments = spec_.command,
                      .environment = spec_.environment,
                      .out = out_ ? out_->writer().get() : out_end.get(),
                      .err = err_ ? err_->writer().get() : err_end.get(),
                      .kept = health_.writer.get(),
                      .guard = guard_.descriptor()};
  process.environment.push_back(concat("TESSERA_HEALTH_FD=", health_.writer.get()));
  return Process(process);
}

void RankProcess::read_health() {
  std::array<char, 4096> bytes{};
  ssize_t length = 0;
  while ((length = read(health_.reader.get(), bytes.data(), bytes.size())) > 0) {
    heartbeats_.add({bytes.data(), static_cast<size_t>(length)}, Clock::now());
  }
  if (length != 0) return;
  heartbeats_.close();
  loop_.unwatch(health_.reader.get());
}

Descriptor RankProcess::open_end(int own, const char* ending) const {
  if (!spec_.foreground) return open_log(ending);
  return checked(fcntl(own, F_DUPFD_CLOEXEC, 0), "cannot duplicate the launcher's output");
}

Descriptor RankProcess::open_log(const char* ending) const {
  const std::string path = spec_.log + ending;
  return checked(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644),
                 concat("cannot write ", path));
}

void RankProcess::step() {
  process_.collect();
  if (has_ended() && !noted_) note_end();
  if (is_group_gone() && guarded_) guard_.remove(process_.pid());
  guarded_ = !is_group_gone();
  if (out_) out_->step();
  if (err_) err_->step();
}

void RankProcess::note_end() {
  noted_ = true;
  read_health();
  stopped_ = sent_;
  failed_at_us_ = microseconds_since_1970();
  if (!has_failed()) return;
  report_ = read_error_file(spec_.error_file);
  if (report_ && report_->time_us > 0 && report_->time_us < failed_at_us_) {
    failed_at_us_ = report_->time_us;
  }
}

void RankProcess::signal(int number) {
  step();  // A rank that has ended by now ended by itself.
  process_.signal(number);
  sent_ = number;
}

bool RankProcess::pass_on(int number) {
  const std::vector<pid_t> handlers = handlers_of(number, process_.pid());
  for (const pid_t pid : handlers) kill(pid, number);
  return !handlers.empty();
}

bool RankProcess::has_open_streams() const {
  return (out_ && out_->is_open()) || (err_ && err_->is_open());
}

bool RankProcess::is_paused() const {
  return (out_ && out_->is_paused()) || (err_ && err_->is_paused());
}

void RankProcess::close_streams() {
  if (out_) out_->close();
  if (err_) err_->close();
}

std::string RankProcess::tail_of(const RankStream* stream, const char* ending) const {
  if (spec_.foreground) return "";  // Already on the screen.
  return stream != nullptr ? stream->tail() : tail_of_file(spec_.log + ending);
}

Failure RankProcess::failure() {
  const int status = process_.status().value_or(0);
  if (out_) out_->drain();
  if (err_) err_->drain();
  Failure failure{.rank = spec_.rank,
                  .exit_code = WIFSIGNALED(status) ? 0 : WEXITSTATUS(status),
                  .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                  .message = report_ ? report_->message : ""};
  failure.tail_name = "stderr";
  failure.tail = last_lines(tail_of(err_.get(), ".err"), kTailLines, kLongestTailLine);
  if (!failure.tail.empty()) return failure;
  failure.tail_name = "stdout";
  failure.tail = last_lines(tail_of(out_.get(), ".out"), kTailLines, kLongestTailLine);
  return failure;
}

}  // namespace tessera
