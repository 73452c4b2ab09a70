#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// The NCCL options of one communicator; NCCL chooses those that are not set.
struct NcclOptions {
  bool high_priority_stream = false;                   // Its kernels are scheduled before others.
  std::optional<int> cga_cluster_size = std::nullopt;  // Thread blocks per cluster, 0 to 8.
  std::optional<int> min_ctas = std::nullopt;          // Least thread blocks per kernel, from 1.
  std::optional<int> max_ctas = std::nullopt;          // Most thread blocks per kernel, from 1.
  std::optional<std::string> net_name = std::nullopt;  // IB or socket, in upper or lower case.

  friend bool operator==(const NcclOptions&, const NcclOptions&) = default;
};

/// Options by Megatron's short name of a kind of group, e.g. "dp_cp".
using NcclConfig = std::map<std::string, NcclOptions, std::less<>>;

/// Every short name, in Megatron's order of creation.
std::span<const std::string> nccl_sections();

/// Parses Megatron's file of NCCL options: one section per kind of group, each with any of
///
///   tp: {is_high_priority_stream: true, cga_cluster_size: 2, min_ctas: 4, max_ctas: 16, net_name:
///   IB}
///
/// ConfigError with `source` and the line for invalid YAML, unknown or repeated sections and keys,
/// and wrong values.
NcclConfig parse_nccl_config(const std::string& yaml, const std::string& source);
/// Reads Megatron's YAML file of NCCL options; ConfigError names the line's key.
NcclConfig read_nccl_config(const std::string& path);

/// Sets one option from its text, as written in the file. ConfigError for unknown keys and wrong
/// values.
void set_nccl_option(NcclOptions& options, std::string_view key, const std::string& value);

/// Gives these kinds of groups high-priority streams, whatever the file says.
void set_high_priority(NcclConfig& config, std::span<const std::string> sections);

}  // namespace tessera
