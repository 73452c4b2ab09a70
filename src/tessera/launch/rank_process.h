#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/launch/failure.h"
#include "tessera/launch/guard.h"
#include "tessera/launch/process.h"
#include "tessera/launch/screen.h"

namespace tessera TSR_API {

/// One stream of a rank on its way to the screen.
class RankStream {
 public:
  RankStream(EventLoop& loop, Sink& sink, std::string prefix);
  ~RankStream() { close(); }
  RankStream(const RankStream&) = delete;
  RankStream& operator=(const RankStream&) = delete;

  /// The end that the rank writes to; closed here once the rank has it.
  Descriptor& writer() { return pipe_.writer; }
  /// Goes on after the screen was full.
  void step();
  /// Reads what is there by now.
  void drain();
  bool is_open() const { return pipe_.reader.is_open(); }
  /// The screen is full.
  bool is_paused() const { return paused_; }
  void close();
  const std::string& tail() const { return tail_.text(); }

 private:
  enum class Got { kSome, kNothing, kEnd };
  Got read_some();
  void on_event();

  EventLoop& loop_;
  Sink& sink_;
  Pipe pipe_ = make_pipe();
  LinePrefixer lines_;
  Tail tail_;
  bool paused_ = false;
};

/// What a rank is started with.
struct RankSpec {
  GlobalRank rank = {};
  std::string program = "";
  std::vector<std::string> command = {};
  std::vector<std::string> environment = {};
  std::string log = "";     // Path without .out and .err; "" for the screen.
  bool foreground = false;  // The launcher's own screen, as it is.
  std::string error_file = "";
};

/// One rank of this node: its process, its streams and what it tells.
class RankProcess {
 public:
  RankProcess(const RankSpec& spec, EventLoop& loop, Guard& guard, Screen& screen);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  GlobalRank rank() const { return spec_.rank; }
  /// Takes note of what has happened.
  void step();
  /// To its whole process group.
  void signal(int number);
  /// To those of its processes that handle it; whether there is one.
  bool pass_on(int number);

  bool has_ended() const { return process_.status().has_value(); }
  bool has_failed() const { return process_.status().value_or(0) != 0 && stopped_ == 0; }
  bool has_told_health() const { return healthy_; }
  bool is_group_gone() const { return process_.is_group_gone(); }
  bool has_open_streams() const;
  bool is_paused() const;
  void close_streams();
  RankEnd end() const { return {spec_.rank, process_.status().value_or(SIGKILL), stopped_}; }
  /// What it failed of, and when: since 1970, by its error file where that tells.
  Failure failure();
  int64_t failed_at_us() const { return failed_at_us_; }

 private:
  Process start();
  void read_health();
  Descriptor open_log(const char* ending) const;
  /// Where a stream goes that does not come through here.
  Descriptor open_end(int own, const char* ending) const;
  void note_end();
  std::string tail_of(const RankStream* stream, const char* ending) const;

  RankSpec spec_;
  EventLoop& loop_;
  Guard& guard_;
  std::unique_ptr<RankStream> out_;  // None where there are logs, and in the foreground.
  std::unique_ptr<RankStream> err_;
  Pipe health_ = make_pipe();
  Process process_;
  bool healthy_ = false;
  bool noted_ = false;
  bool cared_for_ = true;  // By the guard.
  int sent_ = 0;           // The last signal that was sent.
  int stopped_ = 0;        // The last one before it ended.
  int64_t failed_at_us_ = 0;
  std::optional<ErrorReport> report_;
};

}  // namespace tessera
