#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/launch/failure.h"
#include "tessera/launch/guard.h"
#include "tessera/launch/heartbeat_pipe.h"
#include "tessera/launch/process.h"
#include "tessera/launch/screen.h"

namespace tessera TSR_API {

/// Copies one output stream of a rank to the screen.
class RankStream {
 public:
  RankStream(EventLoop& loop, Sink& sink, std::string prefix);
  ~RankStream() { close(); }
  RankStream(const RankStream&) = delete;
  RankStream& operator=(const RankStream&) = delete;

  /// The write end for the rank; closed here after the rank has started.
  Descriptor& writer() { return pipe_.writer; }
  /// Continues after the screen was full.
  void step();
  /// Reads what is available now.
  void drain();
  /// More output may follow.
  bool is_open() const { return pipe_.reader.is_open(); }
  /// The screen is full.
  bool is_paused() const { return paused_; }
  /// Stops reading, and shows an incomplete last line.
  void close();
  /// The end of the output, without prefixes: at least the last Tail::kBytes.
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

/// How to start a rank.
struct RankSpec {
  GlobalRank rank = {};                       // In the world of this attempt.
  std::string program = "";                   // As returned by find_program.
  std::vector<std::string> command = {};      // argv, including the program's name.
  std::vector<std::string> environment = {};  // NAME=value; TESSERA_HEALTH_FD is added.
  std::string log = "";                       // Path without .out and .err; "": the screen.
  bool foreground = false;                    // Writes to the launcher's output directly.
  std::string error_file = "";                // Path; an old file is removed.
};

/// One rank of this node: its process, its output and its reports.
class RankProcess {
 public:
  RankProcess(const RankSpec& spec, EventLoop& loop, Guard& guard, Screen& screen);
  ~RankProcess();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  /// In the world of this attempt.
  GlobalRank rank() const { return spec_.rank; }
  /// Handles events.
  void step();
  /// Sends a signal to its whole process group.
  void signal(int number);
  /// Sends a signal to those of its processes that handle it; returns whether there is one.
  bool pass_on(int number);

  /// Its first process has ended; children of it may be left.
  bool has_ended() const { return process_.status().has_value(); }
  /// It ended with an exit code other than 0, or by a signal, before the launcher sent it one.
  bool has_failed() const { return process_.status().value_or(0) != 0 && stopped_ == 0; }
  /// It has connected to the others.
  bool has_reported_health() const { return heartbeats_.is_healthy(); }
  /// From its pipe TESSERA_HEALTH_FD.
  const HeartbeatReader& heartbeats() const { return heartbeats_; }
  /// The state of its first process in /proc: 'T' if it is stopped; '?' if there is none.
  char state() const { return process_.state(); }
  /// No process of its group is left.
  bool is_group_gone() const { return process_.is_group_gone(); }
  /// More output may follow; never with log files, or in the foreground.
  bool has_open_streams() const;
  /// The screen is full: output of the rank waits.
  bool is_paused() const;
  /// Stops reading its output.
  void close_streams();
  /// How it ended; as by SIGKILL, if it has not ended.
  RankEnd end() const { return {spec_.rank, process_.status().value_or(SIGKILL), stopped_}; }
  /// Why it failed. Reads its output up to now for the last lines.
  Failure failure();
  /// When it ended, in microseconds since 1970; from its error file if that has an earlier time.
  int64_t failed_at_us() const { return failed_at_us_; }

 private:
  Process start();
  void read_health();
  Descriptor open_log(const char* ending) const;
  /// The target of a stream that does not pass through the launcher.
  Descriptor open_end(int own, const char* ending) const;
  void note_end();
  std::string tail_of(const RankStream* stream, const char* ending) const;

  RankSpec spec_;
  EventLoop& loop_;
  Guard& guard_;
  std::unique_ptr<RankStream> out_;  // Null with log files, and in the foreground.
  std::unique_ptr<RankStream> err_;
  Pipe health_ = make_pipe();
  Process process_;
  HeartbeatReader heartbeats_;
  bool noted_ = false;
  bool guarded_ = true;  // By the guard.
  int sent_ = 0;         // The last signal sent.
  int stopped_ = 0;      // The last signal sent before it ended.
  int64_t failed_at_us_ = 0;
  std::optional<ErrorReport> report_;
};

}  // namespace tessera
