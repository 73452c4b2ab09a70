#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/environment.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// What the program that started this process told it about the job.
struct LaunchInfo {
  std::string launcher = "none";  // torchrun, slurm, open mpi, pmi, or none.
  int64_t rank = 0;
  int64_t world_size = 1;
  int64_t local_rank = 0;
  int64_t local_world_size = 1;  // The world's, where nobody tells.
  int64_t node_rank = 0;
  std::string master_addr = "127.0.0.1";
  int64_t master_port = 0;   // 0: nobody has to be met.
  bool agent_store = false;  // The launcher holds the store: rank 0 is a client, too.
  int64_t restart_count = 0;
  bool maybe_several_hosts = false;  // Nobody tells, and MASTER_ADDR is not loopback.

  /// Whether all ranks are known to be on this host.
  bool one_host() const { return local_world_size == world_size && !maybe_several_hosts; }
  friend bool operator==(const LaunchInfo&, const LaunchInfo&) = default;
};

/// Reads torchrun's variables, then Slurm's, Open MPI's and PMI's; none of them set is a world of
/// one, of which `launcher` is none. Missing, malformed and contradicting values raise ConfigError.
LaunchInfo read_launch_info(const Environment& environment);

/// The first host of a Slurm node list: "gpu[07-09,12],x1" gives "gpu07".
std::string first_slurm_host(const std::string& node_list);

}  // namespace tessera
