#pragma once

#include <cstdint>
#include <string>

#include "tessera/base/environment.h"
#include "tessera/base/export.h"

namespace tessera TSR_API {

/// Rank, size and rendezvous address of this process, as set by its launcher.
struct LaunchInfo {
  std::string launcher = "none";  // torchrun, slurm, open mpi, pmi, or none.
  int64_t rank = 0;               // In the world, from 0.
  int64_t world_size = 1;         // Ranks of the whole job.
  int64_t local_rank = 0;         // Among the ranks of this node, from 0.
  int64_t local_world_size = 1;   // Default: the world size.
  int64_t node_rank = 0;          // Of this node, from 0; 0 if the launcher does not say.
  /// Host name or IP address of the job's store.
  std::string master_addr = "127.0.0.1";
  int64_t master_port = 0;           // 0 if there is only one rank.
  bool agent_store = false;          // The launcher hosts the store, and rank 0 is a client, too.
  int64_t restart_count = 0;         // How often the launcher has restarted the ranks.
  bool maybe_several_hosts = false;  // Hosts unknown, and MASTER_ADDR is not loopback.

  /// Whether all ranks are known to be on this host.
  bool one_host() const { return local_world_size == world_size && !maybe_several_hosts; }
  friend bool operator==(const LaunchInfo&, const LaunchInfo&) = default;
};

/// Reads the variables of torchrun, then of Slurm, Open MPI and PMI. If none are set, it is a world
/// of one rank with launcher "none". ConfigError for missing, malformed or inconsistent values.
LaunchInfo read_launch_info(const Environment& environment);

/// The first host of a Slurm node list: "gpu[07-09,12],x1" gives "gpu07".
std::string first_slurm_host(const std::string& node_list);

}  // namespace tessera
