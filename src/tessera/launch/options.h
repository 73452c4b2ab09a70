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

/// Where the launchers' rendezvous takes place.
struct Endpoint {
  std::string host = "";  // Name or IP address; empty: not given.
  int64_t port = 29400;   // TCP port, from 1 to 65535.

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// The options of `tessera run`.
struct LaunchOptions {
  std::vector<std::string> command = {};  // The program and its arguments.
  int64_t nproc = 1;                      // Ranks per node.
  int64_t nnodes = 1;                     // Nodes of the job; the most, with min_nodes.
  std::optional<int64_t> min_nodes = {};  // Enough to go on without lost nodes; default: nnodes.
  std::optional<int64_t> node_rank = {};  // Default: by order of arrival.
  Endpoint rendezvous = {};               // An address of node 0, for several nodes.
  std::string id = "none";                // The same for all launchers of one job.
  int64_t max_restarts = 0;               // After failures, not to add nodes.
  std::string log_dir = "";               // Empty: output goes to the screen.
  /// The rank that writes directly to the launcher's output, so that it may draw on the terminal.
  std::optional<GlobalRank> foreground = {};
  std::string master_addr = "";           // Default: node 0's address.
  int64_t master_port = 0;                // 0: any free port.
  std::chrono::milliseconds grace{5000};  // From SIGTERM to SIGKILL.
  /// The same after a signal to the launcher, so that ranks can save their state; default: grace.
  std::optional<std::chrono::milliseconds> interrupt_grace = std::nullopt;
  std::chrono::milliseconds monitor_interval{1000};      // Longest time between two checks.
  std::chrono::milliseconds rendezvous_timeout{300000};  // For all nodes to join.
  std::chrono::milliseconds rejoin_timeout{30000};       // For a lost node to rejoin.
  ColorMode out_color = ColorMode::kNone;                // On stdout: prefixes of the ranks.
  ColorMode err_color = ColorMode::kNone;                // On stderr: prefixes and failure block.
  int64_t width = 80;                                    // Of the failure block.

  /// Ranks of the job while it has all its nodes.
  int64_t world_size() const { return nproc * nnodes; }
  /// Whether the job may go on with this many nodes.
  bool is_enough(int64_t nodes) const { return nodes >= min_nodes.value_or(nnodes); }
};

/// ConfigError if options contradict each other.
void check(const LaunchOptions& options);

/// "4", or torchrun's words: gpu (their number), cpu (cores), auto (gpu if there is one).
int64_t parse_nproc(std::string_view text);
/// "2", or torchrun's "min:max": sets nnodes and min_nodes.
void set_nnodes(std::string_view text, LaunchOptions& options);
/// "host", "host:port", "[v6 address]:port".
Endpoint parse_endpoint(std::string_view text);
/// "5" or "0.5", in seconds; messages name `flag`.
std::chrono::milliseconds parse_seconds(std::string_view flag, std::string_view text);

}  // namespace tessera
