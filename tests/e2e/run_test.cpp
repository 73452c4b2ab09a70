// `tessera run` on one node, as users run it: every test starts real ranks.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tessera/base/text.h"
#include "tests/testkit/background.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::Background;
using testkit::Finished;
using testkit::TemporaryFolder;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

// The launcher with these flags; the ranks are a bash script.
Words words_of(const Words& flags, const std::string& script) {
  Words words{TESSERA_PROGRAM, "run"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--", "bash", "-c", script});
  return words;
}

Finished run(const Words& flags, const std::string& script,
             const std::map<std::string, std::string>& variables = {}) {
  Background launcher(words_of(flags, script), variables);
  Finished finished = launcher.finish();
  EXPECT_TRUE(launcher.leaves_nobody());
  return finished;
}

// Sorted, since ranks write when they want.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) lines.emplace_back(line);
  }
  std::ranges::sort(lines);
  return lines;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string read(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return std::move(text).str();
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

constexpr const char* kTellHealth = "echo >&$TESSERA_HEALTH_FD; ";
// Tells, and waits until both of two ranks have told.
constexpr const char* kMeet =
    "echo >&$TESSERA_HEALTH_FD; cd $(dirname $TORCHELASTIC_ERROR_FILE); touch told_$RANK; "
    "until [[ -e told_0 && -e told_1 ]]; do sleep 0.01; done; ";

// --- What ranks find ---

TEST(Run, RanksFindTorchrunsVariables) {
  const Finished finished = run(
      {"--nproc", "2", "--max-restarts", "3", "--rdzv-id", "job 7"},
      R"(echo $LOCAL_RANK $RANK $GROUP_RANK $ROLE_RANK $LOCAL_WORLD_SIZE $WORLD_SIZE $ROLE_WORLD_SIZE \
                                   $GROUP_WORLD_SIZE $MASTER_ADDR $TORCHELASTIC_RESTART_COUNT $TORCHELASTIC_MAX_RESTARTS \
                                   "$TORCHELASTIC_RUN_ID" $OMP_NUM_THREADS ${TORCHELASTIC_USE_AGENT_STORE-unset} ${TESSERA_TRACE_DIR-unset};
                                   [[ -d $(dirname "$TORCHELASTIC_ERROR_FILE") && $MASTER_PORT -gt 0 && -p /proc/self/fd/$TESSERA_HEALTH_FD ]])",
      {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(lines_of(finished.out),
            (Words{"[0] 0 0 0 0 2 2 2 1 127.0.0.1 0 3 job 7 1 unset unset",
                   "[1] 1 1 0 1 2 2 2 1 127.0.0.1 0 3 job 7 1 unset unset"}));
}

TEST(Run, ThreadsAreTheUsersChoiceWhereHeMadeOne) {
  const std::string script = "echo ${OMP_NUM_THREADS-unset}";
  EXPECT_EQ(lines_of(run({"--nproc", "2"}, script, {{"OMP_NUM_THREADS", "7"}}).out),
            (Words{"[0] 7", "[1] 7"}));
  Background alone({"/usr/bin/env", "-u", "OMP_NUM_THREADS", TESSERA_PROGRAM, "run", "--", "bash",
                    "-c", script});
  EXPECT_EQ(alone.finish().out, "[0] unset\n");
}

TEST(Run, RanksHaveDefaultSignalsNoInputAndTheirOwnGroup) {
  // Bash itself leaves the mask and what is ignored as it found them.
  const Finished finished = run({},
                                "grep -E '^Sig(Blk|Ign)' /proc/self/status; cat; [[ $(cut -d' ' "
                                "-f5 /proc/$$/stat) == $$ ]] && echo leads");
  EXPECT_EQ(lines_of(finished.out),
            (Words{"[0] SigBlk:\t0000000000000000", "[0] SigIgn:\t0000000000000000", "[0] leads"}));
}

TEST(Run, AnExplicitMasterIsHonoured) {
  EXPECT_EQ(run({"--master-addr", "localhost", "--master-port", "12345"},
                "echo $MASTER_ADDR $MASTER_PORT")
                .out,
            "[0] localhost 12345\n");
}

TEST(Run, TakesTorchrunsSpellings) {
  Background launcher({TESSERA_PROGRAM, "run", "--nproc_per_node=2", "--standalone", "--no_python",
                       "--rdzv_backend", "c10d", "/bin/echo", "--nproc", "9"});
  EXPECT_EQ(lines_of(launcher.finish().out), (Words{"[0] --nproc 9", "[1] --nproc 9"}));
}

// --- Output ---

TEST(Run, BothStreamsHaveAlignedPrefixes) {
  const Finished finished = run({"--nproc", "11"}, "echo out; echo err >&2");
  std::vector<std::string> out;
  std::vector<std::string> err;
  for (int rank = 0; rank < 11; ++rank) {
    const std::string prefix = concat(rank < 10 ? "[ " : "[", rank, "] ");
    out.push_back(prefix + "out");
    err.push_back(prefix + "err");
  }
  std::ranges::sort(out);
  std::ranges::sort(err);
  EXPECT_EQ(lines_of(finished.out), out);
  EXPECT_EQ(lines_of(finished.err), err);
}

TEST(Run, LinesAreNeverTorn) {
  const Finished finished = run(
      {"--nproc", "3"}, "for i in {1..300}; do printf first; printf second\\\\n; done; printf end");
  const std::vector<std::string> lines = lines_of(finished.out);
  EXPECT_EQ(lines.size(), 903U);
  const std::set<std::string> kinds(lines.begin(), lines.end());
  EXPECT_EQ(kinds, (std::set<std::string>{"[0] end", "[0] firstsecond", "[1] end",
                                          "[1] firstsecond", "[2] end", "[2] firstsecond"}));
}

TEST(Run, MegabytesWithoutALineCostNoMemory) {
  constexpr int64_t kBytes = 40'000'000;
  Background launcher(words_of({}, concat("head -c ", kBytes, " /dev/zero | tr '\\0' x")));
  const Finished finished = launcher.finish();
  EXPECT_EQ(finished.code, 0);
  EXPECT_EQ(std::ranges::count(finished.out, 'x'), kBytes);
  EXPECT_LT(launcher.peak_memory_kib(), 16 << 10);
}

TEST(Run, AReaderThatDoesNotReadHoldsNothingUp) {
  Background launcher(words_of({"--grace", "0.2"}, "echo started >&2; exec yes"));
  launcher.await("started");
  // The launcher's stdout is full soon, and nobody reads it before the end.
  launcher.signal(SIGTERM);
  EXPECT_TRUE(testkit::has_ended(launcher.pid()));
  EXPECT_EQ(launcher.finish().code, 128 + SIGTERM);
  EXPECT_TRUE(launcher.leaves_nobody());
}

TEST(Run, AReaderThatIsGoneEndsTheJob) {
  Background shell({"/bin/bash", "-c",
                    concat(TESSERA_PROGRAM, " run -- yes | head -n 1; exit ${PIPESTATUS[0]}")});
  const Finished finished = shell.finish();
  EXPECT_EQ(finished.out, "[0] y\n");
  EXPECT_EQ(finished.code, 128 + SIGPIPE);
  EXPECT_TRUE(shell.leaves_nobody());
}

TEST(Run, LogsGoToFiles) {
  const TemporaryFolder folder;
  const Finished finished =
      run({"--nproc", "2", "--log-dir", folder.path()},
          "echo out $RANK; echo err $RANK >&2; echo $TESSERA_TRACE_DIR; [[ $RANK == 0 ]]");
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.out, "");
  const std::string attempt = folder.path() + "/attempt_0";
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(read(attempt + "/rank_" + rank + ".out"), "out " + rank + "\n" + attempt + "\n");
    EXPECT_EQ(read(attempt + "/rank_" + rank + ".err"), "err " + rank + "\n");
  }
  EXPECT_TRUE(has(finished.err, "│ err 1")) << finished.err;
  EXPECT_TRUE(has(finished.err, "logs: " + attempt)) << finished.err;
  EXPECT_FALSE(has(finished.err, "[1]")) << finished.err;
  run({"--log-dir", folder.path()}, "echo $TESSERA_TRACE_DIR", {{"TESSERA_TRACE_DIR", "/traces"}});
  EXPECT_EQ(read(attempt + "/rank_0.out"), "/traces\n");
}

// --- Failures ---

TEST(Run, TheBlockNamesTheFailureAndWhatBecameOfTheOthers) {
  const Finished finished = run(
      {"--nproc", "4"},
      R"(case $RANK in 0) exec sleep 100;; 1) trap 'exit 9' TERM; while :; do sleep 0.01; done;; 2) exit 0;;
                                   3) sleep 0.3; echo on stdout; for i in {1..20}; do echo line $i >&2; done; exit 3;; esac)");
  EXPECT_EQ(finished.code, 3);
  EXPECT_EQ(finished.out, "[3] on stdout\n");
  const std::string block = finished.err.substr(finished.err.find("──"));
  for (const char* part :
       {"rank 3 on host ", "ended with exit code 3", "the last lines of its stderr", "│ line 20",
        "│ line 13\n", "rank 0  stopped with SIGTERM\n",
        "rank 1  stopped with SIGTERM, ended with exit code 9\n",
        "rank 2  ended with exit code 0\n"}) {
    EXPECT_TRUE(has(block, part)) << part << " is missing:\n" << block;
  }
  EXPECT_FALSE(has(block, "line 12\n")) << block;
  EXPECT_FALSE(has(block, "[3]")) << "the block is in pieces:\n" << block;
}

TEST(Run, ASignalIsNamed) {
  const Finished finished =
      run({"--nproc", "2"}, "[[ $RANK == 1 ]] && kill -SEGV $$; exec sleep 100");
  EXPECT_EQ(finished.code, 128 + SIGSEGV);
  EXPECT_TRUE(has(finished.err, "was killed by SIGSEGV (Segmentation fault)")) << finished.err;
}

TEST(Run, TheErrorFileOfARankIsShown) {
  Background launcher(
      {TESSERA_PROGRAM, "run", "--", TESSERA_PROGRAM, "ranks", "--world", "12", "--tp", "8"});
  const Finished finished = launcher.finish();
  EXPECT_EQ(finished.code, 2);
  const std::string block = finished.err.substr(finished.err.find("──"));
  EXPECT_TRUE(has(block, "    world size 12 is not divisible by tp")) << block;
}

// Both exits are seen at once: the launcher sleeps while they happen.
TEST(Run, TheErrorFilesTellWhoWasFirst) {
  const TemporaryFolder folder;
  Background launcher(words_of(
      {"--nproc", "2"},
      concat("cd ", folder.path(), R"(; echo pid$RANK=$$; until [[ -e go ]]; do sleep 0.01; done
      printf '{"message": {"message": "from rank %d", "extraInfo": {"timestamp": "%d"}}}' $RANK $(($(date +%s) - 10 * RANK)) >$TORCHELASTIC_ERROR_FILE
      exit $((3 + RANK)))")));
  launcher.await("pid", 2);
  launcher.signal(SIGSTOP);
  std::ofstream(folder.path() + "/go").put('\n');
  for (int rank = 0; rank < 2; ++rank) {
    const std::string mark = concat("pid", rank, "=");
    const std::string seen = launcher.seen().out;
    EXPECT_TRUE(testkit::has_ended(std::stoi(seen.substr(seen.find(mark) + mark.size()))));
  }
  launcher.signal(SIGCONT);
  const Finished finished = launcher.finish();
  EXPECT_EQ(finished.code, 4) << finished.err;
  EXPECT_TRUE(has(finished.err, "rank 1 on host")) << finished.err;
  EXPECT_TRUE(has(finished.err, "from rank 1")) << finished.err;
}

TEST(Run, WhoIgnoresSigtermIsKilledAfterTheGrace) {
  const auto start = Clock::now();
  const Finished finished =
      run({"--nproc", "2", "--grace", "0.5"},
          "[[ $RANK == 1 ]] && { sleep 0.2; exit 3; }; trap '' TERM; while :; do sleep 0.05; done");
  EXPECT_EQ(finished.code, 3);
  EXPECT_GE(seconds_since(start), 0.5);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_TRUE(has(finished.err, "rank 0  killed with SIGKILL, 0.5 s after SIGTERM"))
      << finished.err;
}

TEST(Run, ChildrenOfARankHaveTheGraceToo) {
  // It takes several looks of the launcher to save.
  const Finished finished = run({"--nproc", "2", "--monitor-interval", "0.05"},
                                R"([[ $RANK == 1 ]] && { sleep 0.3; exit 3; }
      (trap 'sleep 0.3; echo saved; exit' TERM; echo ready; while :; do sleep 0.02; done) & wait)");
  EXPECT_EQ(finished.code, 3);
  EXPECT_TRUE(has(finished.out, "[0] saved")) << finished.out;
}

TEST(Run, WhatARankLeavesBehindEndsWithTheJob) {
  const auto start = Clock::now();
  EXPECT_EQ(run({}, "sleep 1000 & echo done").code, 0);
  EXPECT_LT(seconds_since(start), 5);
}

TEST(Run, ProgramsThatCannotBeStarted) {
  const auto code_of = [](const Words& words) { return Background(words).finish(); };
  const Finished missing = code_of({TESSERA_PROGRAM, "run", "--nproc", "2", "no-such-program"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_EQ(missing.err, "tessera run: cannot start 'no-such-program': there is no such program\n");
  EXPECT_EQ(code_of({TESSERA_PROGRAM, "run", "/etc/passwd"}).code, 126);
  EXPECT_EQ(code_of({TESSERA_PROGRAM, "run", "/etc"}).code, 126);
  const TemporaryFolder folder;
  std::ofstream(folder.path() + "/script") << "#!/no/such/interpreter\n";
  fs::permissions(folder.path() + "/script", fs::perms::owner_all);
  const Finished script = code_of({TESSERA_PROGRAM, "run", folder.path() + "/script"});
  EXPECT_EQ(script.code, 127);
  EXPECT_TRUE(has(script.err, "│ tessera run: cannot start")) << script.err;
}

TEST(Run, RefusesBadFlagsWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"--nproc 0 true", "--nproc 0 is not between 1 and"},
      {"--nproc many true", "'many' is not a whole number; give one, or gpu, cpu or auto"},
      {"--nnodes 5:4 true", "--min-nodes 5 is not between 1 and --nnodes 4"},
      {"--nnodes 2 true", "needs --rdzv-endpoint"},
      {"--nnodes 2 --node-rank 2 --rdzv-endpoint h true", "--node-rank 2 is not below --nnodes 2"},
      {"--nnodes 2 --rdzv-endpoint :29400 true", "has no host"},
      {"--nnodes 2 --rdzv-endpoint h:0 true", "ports must be from 1 to 65535"},
      {"--standalone --nnodes 2 --rdzv-endpoint h true", "--standalone means one node"},
      {"--max-restarts -1 true", "is negative"},
      {"--master-port 70000 true", "is not a port"},
      {"--grace soon true", "not a number of seconds"},
      {"--rdzv-backend etcd true", "--rdzv-backend is 'etcd'; choose one of c10d, static"},
      {"--rdzv-backend", "--rdzv-backend needs a value: --rdzv-backend c10d|static"},
      {"--nproc 2 --nproc 3 true", "--nproc is given twice; give it once"},
      {"--nprc 2 true", "did you mean '--nproc'?"},
      {"--nproc 2", "no program to start"},
      {"--nproc 2 --", "no program to start"}};
  for (const auto& [flags, reason] : cases) {
    const Finished finished = testkit::run(concat(TESSERA_PROGRAM, " run ", flags));
    EXPECT_EQ(finished.code, 2) << flags;
    EXPECT_TRUE(has(finished.err, reason)) << flags << " says: " << finished.err;
  }
}

// --- Signals ---

TEST(Run, SignalsArePassedOnAndEndAll) {
  const std::vector<std::pair<int, std::string>> signals{
      {SIGINT, "INT"}, {SIGTERM, "TERM"}, {SIGHUP, "HUP"}};
  for (const auto& [number, name] : signals) {
    Background launcher(
        words_of({"--nproc", "2"}, concat("trap 'echo got ", name, "; exit 0' ", name,
                                          "; echo ready; while :; do sleep 0.02; done")));
    launcher.await("ready", 2);
    launcher.signal(number);
    const Finished finished = launcher.finish();
    EXPECT_EQ(finished.code, 128 + number);
    EXPECT_EQ(lines_of(finished.out),
              (Words{"[0] got " + name, "[0] ready", "[1] got " + name, "[1] ready"}));
    EXPECT_TRUE(has(finished.err, "SIG" + name)) << finished.err;
    EXPECT_FALSE(has(finished.err, "──")) << finished.err;
    EXPECT_TRUE(launcher.leaves_nobody());
  }
}

TEST(Run, ASecondSignalKillsAtOnce) {
  Background launcher(words_of({"--nproc", "2", "--grace", "1000"},
                               "trap '' INT; echo ready; while :; do sleep 0.02; done"));
  launcher.await("ready", 2);
  launcher.signal(SIGINT);
  launcher.await("send it again to kill them");
  launcher.signal(SIGINT);
  EXPECT_EQ(launcher.finish().code, 128 + SIGINT);
  EXPECT_TRUE(launcher.leaves_nobody());
}

TEST(Run, Sigusr1GoesToThoseWhoHandleItAndEndsNobody) {
  Background launcher(words_of({"--nproc", "3"},
                               R"(case $RANK in
         0) trap 'echo dumped' USR1; echo ready; while :; do sleep 0.02; done;;
         1) bash -c 'trap "echo dumped" USR1; echo ready; while :; do sleep 0.02; done'; exit 9;;
         2) echo ready; exec sleep 1000;; esac)"));
  launcher.await("ready", 3);
  launcher.signal(SIGUSR1);
  launcher.await("dumped", 2);
  launcher.await(
      "tessera run: rank 2 does not handle SIGUSR1 and would end, so it is not passed on\n");
  launcher.signal(SIGUSR1);
  launcher.await("dumped", 4);
  launcher.signal(SIGTERM);
  EXPECT_EQ(launcher.finish().code, 128 + SIGTERM);
  EXPECT_TRUE(launcher.leaves_nobody());
}

// The pid of the launcher's guard, once it has its name; 0 where there is none.
pid_t find_guard(pid_t launcher) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string pid, name, state, parent;
    if (file >> pid >> name >> state >> parent && name == "(tessera-guard)" &&
        parent == std::to_string(launcher)) {
      return std::stoi(pid);
    }
  }
  return 0;
}

pid_t guard_of(pid_t launcher) {
  const auto start = Clock::now();
  while (seconds_since(start) < 30) {
    if (const pid_t guard = find_guard(launcher)) return guard;
    usleep(5000);
  }
  throw std::runtime_error("the launcher has no guard");
}

// A rank that is a script: its children's children hold no launcher's hand.
constexpr const char* kFamily =
    "(trap '' TERM INT HUP; bash -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' & wait) & "
    "echo ready; wait";

TEST(Run, NobodyIsLeftWhereTheLauncherIsKilled) {
  Background launcher(words_of({"--nproc", "3"}, kFamily));
  launcher.await("ready", 3);
  const pid_t guard = guard_of(launcher.pid());
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) kill(guard, number);
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.finish().code, 128 + SIGKILL);
  EXPECT_TRUE(launcher.leaves_nobody());
  EXPECT_TRUE(testkit::has_ended(guard));
}

TEST(Run, WhatAKilledLauncherLeftIsRemovedByTheNext) {
  const TemporaryFolder folder;
  const std::map<std::string, std::string> variables{{"TMPDIR", folder.path()}};
  const auto num_folders = [&] {
    return std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator());
  };
  fs::create_directory(folder.path("tessera-run-output"));  // Somebody's own.
  Background alive(words_of({}, "echo ready; exec sleep 1000"), variables);
  alive.await("ready");
  Background killed(words_of({}, "echo ready; exec sleep 1000"), variables);
  killed.await("ready");
  killed.signal(SIGKILL);
  EXPECT_TRUE(killed.leaves_nobody());
  EXPECT_EQ(num_folders(), 3);
  EXPECT_EQ(run({}, "true", variables).code, 0);
  EXPECT_EQ(num_folders(), 2);
  alive.signal(SIGTERM);
  EXPECT_EQ(alive.finish().code, 128 + SIGTERM);
  EXPECT_EQ(num_folders(), 1);
}

TEST(Run, DirectChildrenDieEvenWithoutTheGuard) {
  Background launcher(words_of({"--nproc", "3"}, "echo ready; exec sleep 1000"));
  launcher.await("ready", 3);
  kill(guard_of(launcher.pid()), SIGKILL);
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.finish().code, 128 + SIGKILL);
  EXPECT_TRUE(launcher.leaves_nobody());
}

TEST(Run, TheGuardGoesWithTheLauncher) {
  Background launcher(
      words_of({}, "echo ready; until [[ -e /proc/$PPID/nothing ]]; do sleep 0.02; done"));
  launcher.await("ready");
  const pid_t guard = guard_of(launcher.pid());
  launcher.signal(SIGTERM);
  EXPECT_EQ(launcher.finish().code, 128 + SIGTERM);
  EXPECT_EQ(kill(guard, 0), -1) << "it ended before the launcher did";
}

// --- Restarts ---

TEST(Run, AHealthyJobIsRestartedWithANewPort) {
  const Finished finished =
      run({"--nproc", "2", "--max-restarts", "3"},
          concat("echo restart $TORCHELASTIC_RESTART_COUNT port $MASTER_PORT; ", kMeet,
                 "[[ $TORCHELASTIC_RESTART_COUNT == 2 ]] && exit 0; [[ $RANK == 1 ]] && exit 7; "
                 "exec sleep 100"));
  EXPECT_EQ(finished.code, 0) << finished.err;
  std::string last_port;
  for (int restart = 0; restart < 3; ++restart) {
    const auto port_of = [&](int rank) {
      const std::string mark = concat("[", rank, "] restart ", restart, " port ");
      EXPECT_TRUE(has(finished.out, mark)) << finished.out;
      return finished.out.substr(finished.out.find(mark) + mark.size(), 5);
    };
    EXPECT_EQ(port_of(0), port_of(1));
    EXPECT_NE(port_of(0), last_port);
    last_port = port_of(0);
  }
  EXPECT_TRUE(has(finished.err, "restart 1 of 3.")) << finished.err;
  EXPECT_TRUE(has(finished.err, "restart 2 of 3.")) << finished.err;
}

TEST(Run, RestartsEnd) {
  const Finished finished =
      run({"--max-restarts", "2"}, concat("echo start; ", kTellHealth, "exit 7"));
  EXPECT_EQ(finished.code, 7);
  EXPECT_EQ(finished.out, "[0] start\n[0] start\n[0] start\n");
  EXPECT_TRUE(has(finished.err, "No restarts left: 2 of 2 used.")) << finished.err;
}

TEST(Run, NoRestartBeforeAllRanksHaveTold) {
  const Finished finished = run({"--nproc", "2", "--max-restarts", "2"},
                                concat("echo start; [[ $RANK == 1 ]] && { sleep 0.3; exit 7; }; ",
                                       kTellHealth, "exec sleep 100"));
  EXPECT_EQ(finished.code, 7);
  EXPECT_EQ(lines_of(finished.out), (Words{"[0] start", "[1] start"}));
  EXPECT_TRUE(has(finished.err, "No restart: the job failed before all ranks had connected"))
      << finished.err;
}

// After five seconds there is one: local_job_test.cpp.
TEST(Run, NoRestartOfProgramsThatTellNothingAndFailAtOnce) {
  const Finished finished = run({"--max-restarts", "2"}, "echo start; exit 7");
  EXPECT_EQ(finished.out, "[0] start\n");
  EXPECT_TRUE(has(finished.err, "No restart: the job failed before")) << finished.err;
}

TEST(Run, AnInterruptedJobIsNotRestarted) {
  Background launcher(
      words_of({"--max-restarts", "2"}, concat(kTellHealth, "echo ready; exec sleep 100")));
  launcher.await("ready");
  launcher.signal(SIGTERM);
  const Finished finished = launcher.finish();
  EXPECT_EQ(finished.code, 128 + SIGTERM);
  EXPECT_EQ(finished.out, "[0] ready\n");
}

}  // namespace
}  // namespace tessera
