#include "tessera/launch/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <map>

#include "tessera/base/text.h"

namespace tessera {
namespace {

using Variables = std::map<std::string, std::string>;

Variables own_variables() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t equals = text.find('=', 1);
    if (equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

// Otherwise each rank of a node would start as many threads as there are cores.
void limit_threads(Variables& variables, int64_t nproc) {
  if (nproc > 1) variables.try_emplace("OMP_NUM_THREADS", "1");
}

void set_places(Variables& variables, const LaunchOptions& options, const StartMessage& start,
                int64_t local_rank) {
  const std::string rank = concat(global_rank(options, start, local_rank));
  const std::string world = std::to_string(options.nproc * start.nnodes);
  variables["LOCAL_RANK"] = std::to_string(local_rank);
  variables["RANK"] = rank;
  variables["GROUP_RANK"] = std::to_string(start.node);
  variables["ROLE_RANK"] = rank;
  variables["ROLE_NAME"] = "default";
  variables["LOCAL_WORLD_SIZE"] = std::to_string(options.nproc);
  variables["WORLD_SIZE"] = world;
  variables["GROUP_WORLD_SIZE"] = std::to_string(start.nnodes);
  variables["ROLE_WORLD_SIZE"] = world;
  variables["TESSERA_FULL_WORLD_SIZE"] = std::to_string(options.world_size());
}

}  // namespace

std::vector<std::string> rank_environment(const LaunchOptions& options, const StartMessage& start,
                                          int64_t local_rank, const std::string& folder) {
  Variables variables = own_variables();
  variables.erase("TORCHELASTIC_USE_AGENT_STORE");  // Rank 0 holds the store.
  variables.erase("TESSERA_HEALTH_FD");             // From an outer launcher.
  set_places(variables, options, start, local_rank);
  variables["MASTER_ADDR"] = start.master_addr;
  variables["MASTER_PORT"] = std::to_string(start.master_port);
  if (!start.secret.empty()) variables.try_emplace("TESSERA_JOB_SECRET", start.secret);
  variables["TORCHELASTIC_RESTART_COUNT"] = std::to_string(start.restart);
  variables["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(start.max_restarts);
  variables["TORCHELASTIC_RUN_ID"] = options.id;
  variables["TORCHELASTIC_ERROR_FILE"] =
      error_file_of(folder, global_rank(options, start, local_rank));
  limit_threads(variables, options.nproc);
  if (!options.log_dir.empty()) variables.try_emplace("TESSERA_TRACE_DIR", folder);
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(concat(name, "=", value));
  return entries;
}

GlobalRank global_rank(const LaunchOptions& options, const StartMessage& start,
                       int64_t local_rank) {
  return GlobalRank{start.node * options.nproc + local_rank};
}

std::string error_file_of(const std::string& folder, GlobalRank rank) {
  return concat(folder, "/rank_", rank, ".error.json");
}

}  // namespace tessera
