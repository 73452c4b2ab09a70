#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/color.h"
#include "tessera/base/export.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// Where launchers meet.
struct Endpoint {
  std::string host = "";
  int64_t port = 29400;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// What `tessera run` was asked for.
struct LaunchOptions {
  std::vector<std::string> command = {};  // The program and its arguments.
  int64_t nproc = 1;                      // Ranks of each node.
  int64_t nnodes = 1;
  std::optional<int64_t> node_rank = {};  // Without it: the order of arrival.
  Endpoint rendezvous = {};               // Several nodes: an address of node 0.
  std::string id = "none";                // Launchers of one job have the same.
  int64_t max_restarts = 0;
  std::string log_dir = "";  // Empty: the screen.
  /// Whose output is the launcher's own, without prefix: it may draw on the terminal.
  std::optional<GlobalRank> foreground = {};
  std::string master_addr = "";           // Empty: node 0's address.
  int64_t master_port = 0;                // 0: a free one.
  std::chrono::milliseconds grace{5000};  // From SIGTERM to SIGKILL.
  // The same after a signal to the launcher, for ranks that save what they have; grace unless set.
  std::optional<std::chrono::milliseconds> interrupt_grace = std::nullopt;
  std::chrono::milliseconds monitor_interval{1000};   // The longest time between two looks.
  std::chrono::milliseconds meeting_timeout{300000};  // For all nodes to come.
  std::chrono::milliseconds rejoin_timeout{30000};    // For a lost node to come back.
  ColorMode out_color = ColorMode::kNone;
  ColorMode err_color = ColorMode::kNone;
  int64_t width = 80;  // Of the failure block.

  int64_t world_size() const { return nproc * nnodes; }
};

/// Refuses options that contradict each other, by ConfigError.
void check(const LaunchOptions& options);

/// "4", or torchrun's words: gpu (their number), cpu (cores), auto (gpu where there is one).
int64_t parse_nproc(std::string_view text);
/// "2"; torchrun's "min:max" only where both are the same.
int64_t parse_nnodes(std::string_view text);
/// "host", "host:port", "[v6 address]:port".
Endpoint parse_endpoint(std::string_view text);
/// "5" or "0.5", in seconds; `flag` is named where it is neither.
std::chrono::milliseconds parse_seconds(std::string_view flag, std::string_view text);

}  // namespace tessera
