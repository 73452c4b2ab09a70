#include "tessera/launch/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <thread>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr int64_t kMostRanks = 4096;    // Per node.
constexpr int64_t kMostNodes = 100000;  // So that no product overflows.
constexpr double kMostSeconds = 1e8;
constexpr size_t kLongestId = 256;

// One device file per GPU; needs neither torch nor a driver library.
int64_t count_gpus() {
  std::error_code none;
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") && to_integer(name.substr(6)).has_value()) ++count;
  }
  return count;
}

int64_t count_cores() {
  return std::max<int64_t>(1, std::thread::hardware_concurrency());
}

int64_t parse_port(std::string_view text, std::string_view endpoint) {
  const auto port = to_integer(text);
  TSR_CHECK(port && *port >= 1 && *port <= 65535, "--rdzv-endpoint '", endpoint, "' has the port '",
            text, "'; ports must be from 1 to 65535");
  return *port;
}

void check_nodes(const LaunchOptions& options) {
  TSR_CHECK(options.nnodes >= 1 && options.nnodes <= kMostNodes, "--nnodes ", options.nnodes,
            " is not between 1 and ", kMostNodes);
  const int64_t fewest = options.min_nodes.value_or(options.nnodes);
  TSR_CHECK(fewest >= 1 && fewest <= options.nnodes, "--min-nodes ", fewest,
            " is not between 1 and --nnodes ", options.nnodes);
  TSR_CHECK(!options.node_rank || (*options.node_rank >= 0 && *options.node_rank < options.nnodes),
            "--node-rank ", options.node_rank.value_or(0), " is not below --nnodes ",
            options.nnodes, "; nodes are numbered 0 to ", options.nnodes - 1);
  TSR_CHECK(options.nnodes == 1 || !options.rendezvous.host.empty(), "--nnodes ", options.nnodes,
            " needs --rdzv-endpoint: an address of node 0 that all nodes reach, e.g. "
            "--rdzv-endpoint node0:29400");
}

}  // namespace

void check(const LaunchOptions& options) {
  TSR_CHECK(!options.command.empty(),
            "no program to start; give it after the flags: tessera run --nproc 4 -- program");
  TSR_CHECK(options.nproc >= 1 && options.nproc <= kMostRanks, "--nproc ", options.nproc,
            " is not between 1 and ", kMostRanks);
  check_nodes(options);
  TSR_CHECK(options.max_restarts >= 0, "--max-restarts ", options.max_restarts,
            " is negative, but must be at least 0");
  TSR_CHECK(options.master_port >= 0 && options.master_port <= 65535, "--master-port ",
            options.master_port,
            " is not a port; choose 1 to 65535, or leave it out for a free one");
  TSR_CHECK(!options.id.empty() && options.id.size() <= kLongestId, "--rdzv-id has ",
            options.id.size(), " characters; give 1 to ", kLongestId);
}

int64_t parse_nproc(std::string_view text) {
  if (text == "cpu") return count_cores();
  if (text == "auto") return count_gpus() > 0 ? count_gpus() : count_cores();
  if (text == "gpu") {
    TSR_CHECK(count_gpus() > 0, "--nproc gpu, but this host has no /dev/nvidia0; give a number");
    return count_gpus();
  }
  const auto number = to_integer(text);
  TSR_CHECK(number.has_value(), "--nproc '", text,
            "' is not a whole number; give one, or gpu, cpu or auto");
  return *number;
}

void set_nnodes(std::string_view text, LaunchOptions& options) {
  const auto parts = split(text, ':');
  const auto lowest = to_integer(parts.front());
  const auto highest = to_integer(parts.back());
  TSR_CHECK(parts.size() <= 2 && lowest && highest, "--nnodes '", text,
            "' is not a whole number; give the number of nodes, or the smallest and the largest "
            "as MIN:MAX");
  options.nnodes = *highest;
  if (parts.size() == 2) options.min_nodes = lowest;
}

Endpoint parse_endpoint(std::string_view text) {
  Endpoint endpoint;
  std::string_view rest;
  if (text.starts_with("[")) {
    const size_t close = text.find(']');
    TSR_CHECK(close != std::string_view::npos, "--rdzv-endpoint '", text, "' has no ']'");
    endpoint.host = text.substr(1, close - 1);
    rest = text.substr(close + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    endpoint.host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  TSR_CHECK(!endpoint.host.empty(), "--rdzv-endpoint '", text,
            "' has no host; write host or host:port");
  TSR_CHECK(rest.empty() || rest.starts_with(":"), "--rdzv-endpoint '", text, "' is not host:port");
  if (!rest.empty()) endpoint.port = parse_port(rest.substr(1), text);
  return endpoint;
}

std::chrono::milliseconds parse_seconds(std::string_view flag, std::string_view text) {
  double seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, seconds);
  TSR_CHECK(error == std::errc() && stopped == end && seconds >= 0 && seconds <= kMostSeconds, flag,
            " '", text, "' is not a number of seconds, e.g. ", flag, " 5");
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

}  // namespace tessera
