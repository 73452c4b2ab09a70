#pragma once

#include <string>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/launch/options.h"
#include "tessera/launch/rendezvous_protocol.h"

namespace tessera TSR_API {

/// The environment of one rank, as torchrun sets it: NAME=value, based on this process's own.
/// `folder` is that of the attempt, for error files and traces.
std::vector<std::string> rank_environment(const LaunchOptions& options, const StartMessage& start,
                                          int64_t local_rank, const std::string& folder);

/// The global rank of one of this node's ranks.
GlobalRank global_rank(const LaunchOptions& options, const StartMessage& start, int64_t local_rank);
/// The value of TORCHELASTIC_ERROR_FILE.
std::string error_file_of(const std::string& folder, GlobalRank rank);

}  // namespace tessera
