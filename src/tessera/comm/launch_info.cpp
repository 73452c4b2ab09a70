#include "tessera/comm/launch_info.h"

#include <algorithm>
#include <cstdlib>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr int64_t kLargestPort = 65535;

// Reads variables; every error message has the name.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::optional<std::string> text(const std::string& name) const {
    auto value = environment_(name);
    return value && value->empty() ? std::nullopt : value;
  }

  std::optional<int64_t> number(const std::string& name) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto parsed = to_integer(*value);
    TSR_CHECK(parsed && *parsed >= 0, name, "='", *value,
              "' must be an integer ≥ 0; use digits only");
    return parsed;
  }

  int64_t required(const std::string& name, std::string_view because) const {
    const auto value = number(name);
    TSR_CHECK(value.has_value(), name, " is not set, but ", because, "; set both");
    return *value;
  }

 private:
  const Environment& environment_;
};

// A port that every rank derives in the same way from the job's id.
int64_t port_of_job(const std::string& job) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : job) hash = (hash ^ c) * 0x100000001b3;
  return 20000 + static_cast<int64_t>(hash % 10000);
}

void check(const LaunchInfo& info) {
  TSR_CHECK(info.world_size > 0, "the world size is ", info.world_size,
            "; a world has at least 1 rank");
  TSR_CHECK(info.rank < info.world_size, "rank ", info.rank, " is not below the world size ",
            info.world_size, " (set by ", info.launcher, "); ranks go from 0 to ",
            info.world_size - 1);
  TSR_CHECK(info.local_world_size > 0 && info.local_world_size <= info.world_size,
            "the local world size is ", info.local_world_size, " in a world of ", info.world_size,
            "; it must be from 1 to the world size");
  TSR_CHECK(info.local_rank < info.local_world_size, "local rank ", info.local_rank,
            " is not below the local world size ", info.local_world_size, " (set by ",
            info.launcher, "); check LOCAL_RANK and LOCAL_WORLD_SIZE");
  TSR_CHECK(info.master_port <= kLargestPort, "MASTER_PORT=", info.master_port,
            " is not a valid port; choose 1 to ", kLargestPort);
}

// MASTER_ADDR and MASTER_PORT override the launcher's defaults.
void read_master(const Reader& reader, LaunchInfo& info) {
  if (const auto address = reader.text("MASTER_ADDR")) info.master_addr = *address;
  if (const auto port = reader.number("MASTER_PORT")) info.master_port = *port;
}

// Checks the name only: a host name may resolve to loopback on that host but not on others.
bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.") || address == "::1";
}

// With only RANK and WORLD_SIZE, ranks may be on any host. Over a network they need a secret.
void look_for_hosts(const Reader& reader, LaunchInfo& info) {
  const bool told = reader.text("LOCAL_WORLD_SIZE") || reader.text("NUM_NODES");
  info.maybe_several_hosts = !told && info.world_size > 1 && !is_loopback(info.master_addr);
  TSR_CHECK(!info.maybe_several_hosts || info.agent_store || reader.text("TESSERA_JOB_SECRET"),
            "LOCAL_WORLD_SIZE is not set, so ranks may be on several hosts and need a secret to "
            "connect at MASTER_ADDR=",
            info.master_addr, "; set TESSERA_JOB_SECRET to the same text on all ranks, or ",
            "LOCAL_WORLD_SIZE=", info.world_size, " if all ranks are on this host");
}

std::optional<LaunchInfo> read_torchrun(const Reader& reader) {
  const auto rank = reader.number("RANK");
  const auto world = reader.number("WORLD_SIZE");
  if (!rank && !world) return std::nullopt;
  if (!rank && *world == 1) return LaunchInfo{.launcher = "torchrun"};
  LaunchInfo info{.launcher = "torchrun"};
  info.rank = reader.required("RANK", concat("WORLD_SIZE=", world.value_or(0), " is"));
  info.world_size = reader.required("WORLD_SIZE", concat("RANK=", info.rank, " is"));
  const auto local_world = reader.number("LOCAL_WORLD_SIZE");
  const auto local_rank = reader.number("LOCAL_RANK");
  // Without a local size, derive it from the number of nodes.
  const int64_t nodes = std::max<int64_t>(1, reader.number("NUM_NODES").value_or(1));
  info.local_world_size = local_world.value_or((info.world_size + nodes - 1) / nodes);
  info.local_rank = local_rank.value_or(info.rank % std::max<int64_t>(1, info.local_world_size));
  info.node_rank = reader.number("GROUP_RANK").value_or(0);
  info.agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  info.restart_count = reader.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  read_master(reader, info);
  look_for_hosts(reader, info);
  return info;
}

// sbatch scripts and salloc shells have a SLURM_PROCID, too, but are not srun steps: they have no
// step id, or a special one at the end of the range.
bool is_in_step(const Reader& reader) {
  constexpr int64_t kFirstSpecial = 0xfffffff0;
  const auto step = reader.number("SLURM_STEP_ID");
  return step && *step < kFirstSpecial;
}

std::optional<LaunchInfo> read_slurm(const Reader& reader) {
  const auto rank = reader.number("SLURM_PROCID");
  if (!rank || !is_in_step(reader)) return std::nullopt;
  LaunchInfo info{.launcher = "slurm", .rank = *rank};
  info.world_size = reader.required("SLURM_NTASKS", concat("SLURM_PROCID=", *rank, " is"));
  info.local_rank = reader.required("SLURM_LOCALID", concat("SLURM_PROCID=", *rank, " is"));
  info.node_rank = reader.number("SLURM_NODEID").value_or(0);
  const int64_t nodes = std::max<int64_t>(1, reader.number("SLURM_NNODES").value_or(1));
  const auto per_node = reader.number("SLURM_NTASKS_PER_NODE");
  info.local_world_size = per_node.value_or((info.world_size + nodes - 1) / nodes);
  if (nodes > 1) {
    const auto list = reader.text("SLURM_JOB_NODELIST");
    TSR_CHECK(list || reader.text("MASTER_ADDR"), "SLURM_JOB_NODELIST is not set in a job of ",
              nodes, " nodes; set it, or MASTER_ADDR and MASTER_PORT");
    if (list) info.master_addr = first_slurm_host(*list);
  }
  info.master_port = port_of_job(reader.text("SLURM_JOB_ID").value_or("") + "." +
                                 reader.text("SLURM_STEP_ID").value_or(""));
  read_master(reader, info);
  return info;
}

// Open MPI and PMI only differ in the names.
struct MpiNames {
  const char* launcher;
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;
  const char* job;
};

std::optional<LaunchInfo> read_mpi(const Reader& reader, const MpiNames& names) {
  const auto rank = reader.number(names.rank);
  if (!rank) return std::nullopt;
  LaunchInfo info{.launcher = names.launcher, .rank = *rank};
  info.world_size = reader.required(names.world, concat(names.rank, "=", *rank, " is"));
  info.local_world_size = reader.number(names.local_world).value_or(info.world_size);
  info.local_rank =
      reader.number(names.local_rank).value_or(*rank % std::max<int64_t>(1, info.local_world_size));
  info.node_rank = info.rank / std::max<int64_t>(1, info.local_world_size);
  info.master_port = port_of_job(reader.text(names.job).value_or(names.launcher));
  read_master(reader, info);
  TSR_CHECK(info.one_host() || reader.text("MASTER_ADDR"), "MASTER_ADDR is not set, and ",
            names.launcher,
            " does not say where rank 0 is; set it, e.g. mpirun -x MASTER_ADDR=host");
  return info;
}

}  // namespace

LaunchInfo read_launch_info(const Environment& environment) {
  const Reader reader(environment);
  constexpr MpiNames kOpenMpi{"open mpi",
                              "OMPI_COMM_WORLD_RANK",
                              "OMPI_COMM_WORLD_SIZE",
                              "OMPI_COMM_WORLD_LOCAL_RANK",
                              "OMPI_COMM_WORLD_LOCAL_SIZE",
                              "PMIX_NAMESPACE"};
  constexpr MpiNames kPmi{"pmi",   "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
                          "PMI_ID"};
  std::optional<LaunchInfo> info = read_torchrun(reader);
  if (!info) info = read_slurm(reader);
  if (!info) info = read_mpi(reader, kOpenMpi);
  if (!info) info = read_mpi(reader, kPmi);
  if (!info) return {};
  check(*info);
  return *info;
}

std::string first_slurm_host(const std::string& node_list) {
  const size_t open = node_list.find('[');
  const size_t comma = node_list.find(',');
  if (open == std::string::npos || comma < open) return node_list.substr(0, comma);
  const size_t end = node_list.find_first_of(",-]", open);
  TSR_CHECK(end != std::string::npos && end > open + 1, "SLURM_JOB_NODELIST='", node_list,
            "' cannot be read; set MASTER_ADDR instead");
  return node_list.substr(0, open) + node_list.substr(open + 1, end - open - 1);
}

}  // namespace tessera
