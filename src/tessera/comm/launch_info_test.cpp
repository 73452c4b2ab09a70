#include "tessera/comm/launch_info.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using Variables = std::map<std::string, std::string>;
using testkit::message_of;

LaunchInfo read(const Variables& variables) {
  return read_launch_info([&](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"GROUP_RANK", "1"},
                          {"MASTER_ADDR", "10.0.0.1"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"}};

Variables with(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

TEST(LaunchInfo, NothingSetIsAWorldOfOne) {
  EXPECT_EQ(read({}), LaunchInfo{});
  EXPECT_EQ(read({{"RANK", ""}, {"WORLD_SIZE", ""}}), LaunchInfo{});
  EXPECT_EQ(read({{"WORLD_SIZE", "1"}}).world_size, 1);
}

TEST(LaunchInfo, ReadsTorchrun) {
  const LaunchInfo info = read(kTorchrun);
  EXPECT_EQ(info, (LaunchInfo{.launcher = "torchrun",
                              .rank = 5,
                              .world_size = 8,
                              .local_rank = 1,
                              .local_world_size = 4,
                              .node_rank = 1,
                              .master_addr = "10.0.0.1",
                              .master_port = 29500,
                              .agent_store = true,
                              .restart_count = 2}));
  EXPECT_FALSE(info.one_host());
}

TEST(LaunchInfo, TorchrunWinsOverSlurmAroundIt) {
  EXPECT_EQ(read(with(kTorchrun, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}})).rank, 5);
}

TEST(LaunchInfo, ReadsSlurm) {
  const Variables slurm{{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},
                        {"SLURM_LOCALID", "1"}, {"SLURM_NODEID", "1"},
                        {"SLURM_NNODES", "2"},  {"SLURM_JOB_NODELIST", "gpu[07-08]"},
                        {"SLURM_JOB_ID", "42"}, {"SLURM_STEP_ID", "0"}};
  const LaunchInfo info = read(slurm);
  EXPECT_EQ(info.launcher, "slurm");
  EXPECT_EQ(info.rank, 3);
  EXPECT_EQ(info.local_world_size, 2);
  EXPECT_EQ(info.master_addr, "gpu07");
  EXPECT_EQ(info.master_port, read(with(slurm, {{"SLURM_PROCID", "0"}})).master_port);
  EXPECT_NE(info.master_port, read(with(slurm, {{"SLURM_JOB_ID", "43"}})).master_port);
  EXPECT_EQ(read(with(slurm, {{"MASTER_PORT", "7"}})).master_port, 7);
}

TEST(LaunchInfo, AScriptOfSbatchIsNoRank) {
  const Variables script{{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "42"}};
  EXPECT_EQ(read(script), LaunchInfo{});
  EXPECT_EQ(read(with(script, {{"SLURM_STEP_ID", "4294967290"}})),
            LaunchInfo{});  // salloc's shell.
}

TEST(LaunchInfo, RanksThatSayNothingOfTheirHostsMeetWhereMasterAddrIs) {
  const Variables alone{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  EXPECT_TRUE(read(alone).one_host());
  for (const char* loopback : {"127.0.0.1", "localhost", "::1"}) {
    EXPECT_TRUE(read(with(alone, {{"MASTER_ADDR", loopback}})).one_host()) << loopback;
  }
  const Variables anywhere = with(alone, {{"MASTER_ADDR", "node0"}});
  EXPECT_FALSE(read(with(anywhere, {{"TESSERA_JOB_SECRET", "s"}})).one_host());
  EXPECT_TRUE(read(with(anywhere, {{"LOCAL_WORLD_SIZE", "2"}})).one_host());
  EXPECT_FALSE(read(with(anywhere, {{"NUM_NODES", "2"}})).one_host());
  EXPECT_EQ(message_of<ConfigError>([&] { read(anywhere); }),
            "LOCAL_WORLD_SIZE is not set, so ranks may be on several hosts and need a secret to "
            "connect at MASTER_ADDR=node0; set TESSERA_JOB_SECRET to the same text on all ranks, "
            "or LOCAL_WORLD_SIZE=2 if all ranks are on this host");
}

TEST(LaunchInfo, FirstHostOfASlurmList) {
  EXPECT_EQ(first_slurm_host("gpu[07-09,12],x1"), "gpu07");
  EXPECT_EQ(first_slurm_host("a1,b[2-3]"), "a1");
  EXPECT_EQ(first_slurm_host("node[3,5]"), "node3");
  EXPECT_EQ(first_slurm_host("alone"), "alone");
  EXPECT_THROW(first_slurm_host("gpu[]"), ConfigError);
  EXPECT_THROW(first_slurm_host("gpu[07"), ConfigError);
}

TEST(LaunchInfo, ReadsOpenMpiAndPmi) {
  const LaunchInfo info = read({{"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  EXPECT_EQ(info.launcher, "open mpi");
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.master_addr, "127.0.0.1");
  EXPECT_GT(info.master_port, 0);
  EXPECT_EQ(read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}).launcher, "pmi");
}

TEST(LaunchInfoErrors, NameTheVariableTheRuleAndTheFix) {
  EXPECT_EQ(message_of<ConfigError>([] { read({{"RANK", "3"}}); }),
            "WORLD_SIZE is not set, but RANK=3 is; set both");
  EXPECT_EQ(message_of<ConfigError>([] { read({{"WORLD_SIZE", "4"}}); }),
            "RANK is not set, but WORLD_SIZE=4 is; set both");
  EXPECT_EQ(message_of<ConfigError>([] { read(with(kTorchrun, {{"RANK", "8"}})); }),
            "rank 8 is not below the world size 8 (set by torchrun); ranks go from 0 to 7");
  EXPECT_EQ(message_of<ConfigError>([] { read(with(kTorchrun, {{"RANK", "x"}})); }),
            "RANK='x' must be an integer ≥ 0; use digits only");
}

TEST(LaunchInfoErrors, RefuseContradictions) {
  for (const Variables& change : std::vector<Variables>{{{"WORLD_SIZE", "0"}},
                                                        {{"LOCAL_RANK", "4"}},
                                                        {{"LOCAL_WORLD_SIZE", "0"}},
                                                        {{"LOCAL_WORLD_SIZE", "9"}},
                                                        {{"MASTER_PORT", "70000"}},
                                                        {{"RANK", "-1"}}}) {
    EXPECT_THROW(read(with(kTorchrun, change)), ConfigError) << change.begin()->first;
  }
  EXPECT_THROW(read({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}}), ConfigError);
  EXPECT_THROW(read({{"OMPI_COMM_WORLD_RANK", "0"},
                     {"OMPI_COMM_WORLD_SIZE", "4"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}),
               ConfigError)
      << "several hosts, and the host of rank 0 is unknown";
}

}  // namespace
}  // namespace tessera
