// The real program on hostile and careless input: it refuses in one or two lines that name what is
// wrong, and never crashes, hangs or lets a name steer the terminal. With TESSERA_SOAK every flag
// gets every value, and every file is cut and changed at many places.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::Finished;

bool soak() {
  return std::getenv("TESSERA_SOAK") != nullptr;
}

std::string little_endian(uint64_t number) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &number, bytes.size());
  return bytes;
}

std::string safetensors(const std::string& header, const std::string& data = "") {
  return little_endian(header.size()) + header + data;
}

std::string npy(const std::string& header, const std::string& data = "") {
  return concat(std::string_view("\x93NUMPY\x01\0", 8), static_cast<char>(header.size()), '\0',
                header, data);
}

const std::string kTensor = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
const std::string kTokens = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }";
const std::string kDump =
    R"({"version":"2.5","tessera":{"rank":0,"world_size":1,"host":"h","reason":"r","job":"j",)"
    R"("restart":0,"created_ns":1},"pg_config":{},"entries":[]})";
const std::string kTable = "0F0,0B0\r\n1F0,1B0\r\n";

/// A folder of files that are wrong in every way, and some that are right.
class Hostile : public testing::Test {
 protected:
  Hostile() {
    for (const char* name : {"pipe", "pipe.npy", "pipe.safetensors", "pipe.csv", "pipe.toml"}) {
      mkfifo(folder_.path(name).c_str(), 0600);
    }
    add_model("hf_pipe", "");
    fs::remove(folder_.path("hf_pipe/config.json"));
    mkfifo(folder_.path("hf_pipe/config.json").c_str(), 0600);
    add_model("hf_vocabulary", R"({"vocab_size": 4611686018427387904})");
    add_model("hf_layers", R"({"num_hidden_layers": 1000000000})");
    add_model("hf_product", R"({"vocab_size":2147483648,"hidden_size":2147483648,
                                "num_attention_heads":1})");
    add_model("hf_memory", R"({"hidden_size":1000000,"num_attention_heads":1000})");
    add_model("hf_deep", std::string(5000, '['));
    add_files();
  }

  void add_model(const std::string& name, const std::string& config) {
    fs::create_directory(folder_.path(name));
    folder_.file(name + "/config.json", config);
  }

  void add_files() {
    folder_.file("empty", "");
    folder_.file("text", "To be or not to be, that is the question of which there are many.");
    folder_.file("zeros", std::string(100'000, '\0'));
    folder_.file("whole.safetensors", safetensors(kTensor, "abcd"));
    folder_.file("length.safetensors", little_endian(uint64_t{1} << 63) + "{}");
    folder_.file("cut.safetensors", safetensors(kTensor, "abc"));
    folder_.file("offsets.safetensors",
                 safetensors(R"({"a":{"dtype":"U8","shape":[9223372036854775807],)"
                             R"("data_offsets":[0,9223372036854775807]}})"));
    folder_.file("whole.npy", npy(kTokens, "abcd"));
    folder_.file("overflow.npy", npy("{'descr': '<u2', 'fortran_order': False, 'shape': "
                                     "(4294967296, 4294967296), }"));
    folder_.file("whole.json", kDump);
    folder_.file("deep.json", std::string(100'000, '['));
    folder_.file("whole.csv", kTable);
    folder_.file("huge.csv", "2147483646F2147483646\n");
    folder_.file("whole.toml", "[train]\nsteps = 1\n");
    folder_.file("steps.toml", "[train]\nsteps = 9223372036854775807\n");
    folder_.file("name\x1b[31m.csv", "no table");
    folder_.file("name\xff.safetensors", "cut");
  }

  Finished tessera(const std::string& arguments) const {
    return testkit::run(concat("cd ", folder_.path(), " && timeout -s KILL 120 ", TESSERA_PROGRAM,
                               " ", arguments, " </dev/null"));
  }

  /// What holds for any input. `must_refuse`: it is known to be wrong.
  void expect_calm(const std::string& arguments, bool must_refuse) const {
    SCOPED_TRACE("tessera " + visible(arguments));
    const Finished finished = tessera(arguments);
    EXPECT_TRUE(finished.code == 1 || finished.code == 2 || (!must_refuse && finished.code == 0))
        << "exit code " << finished.code << "\n"
        << finished.err;
    EXPECT_EQ(visible_lines(finished.err), finished.err) << "a name steers the terminal";
    for (const char* sign : {"terminate called", "backtrace", "frame #", "C++ exception",
                             "bad_alloc", "Sanitizer", "please report"}) {
      EXPECT_EQ(finished.err.find(sign), std::string::npos) << finished.err;
    }
    if (finished.code == 0) return;
    const auto lines = std::ranges::count(finished.err, '\n');
    EXPECT_TRUE(lines == 1 || lines == 2) << finished.err;
    EXPECT_EQ(finished.out, "");
  }

  testkit::TemporaryFolder folder_;
};

TEST_F(Hostile, FilesThatAreNone) {
  for (const char* path : {"pipe", "/dev/zero", "/dev/null", "/dev/tty", ".", "none", "empty",
                           "zeros", "text", "''", "/proc/self/mem", "/"}) {
    expect_calm(concat("inspect ", path), true);
    expect_calm(concat("trace ", path), true);
    expect_calm(concat("schedule --csv-in ", path), true);
    expect_calm(concat("schedule --from-trace ", path), true);
    expect_calm(concat("export ", path, " out"), true);
  }
  EXPECT_EQ(tessera("inspect pipe.npy").err,
            "tessera: pipe.npy is a pipe, not a regular file; give a regular file\n");
  EXPECT_EQ(tessera("schedule --csv-in /dev/zero").err,
            "tessera: /dev/zero is a device, not a regular file; give a regular file\n");
}

TEST_F(Hostile, BrokenFiles) {
  for (const char* path :
       {"length.safetensors", "cut.safetensors", "offsets.safetensors", "overflow.npy",
        "pipe.safetensors", "hf_layers", "'name\xff.safetensors'", "deep.json"}) {
    expect_calm(concat("inspect ", path), true);
  }
  for (const char* path : {"deep.json", "whole.csv", "whole.npy"}) {
    expect_calm(concat("trace ", path), true);
  }
  for (const char* path : {"huge.csv", "whole.json", "'name\x1b[31m.csv'"}) {
    expect_calm(concat("schedule --csv-in ", path), true);
  }
}

TEST_F(Hostile, CommandLines) {
  for (const char* arguments :
       {"''",
        "'\x1b[2J'",
        "--wrold",
        "ranks --world 0",
        "ranks --world -1",
        "ranks --world 9223372036854775807",
        "ranks --world 9223372036854775808",
        "ranks --world 64 --tp 0",
        "ranks --world 64 --tp 9223372036854775807",
        "ranks --world 64 --gpus-per-node 0",
        "ranks --world 64 --rank 64",
        "ranks --world 4096 --tp 8 --svg x.svg",
        "ranks --world 65536 --tp 8 --html x.html",
        "ranks --world 64 --tp 8 --svg /no/such/x.svg",
        "ranks --world",
        "ranks --world ''",
        "ranks --dialect x",
        "ranks --world 64 --to '\xff'",
        "ranks '--w\x1b[31m'",
        "schedule --kind gpipe --pp 5000 --microbatches 1",
        "schedule --kind gpipe --pp 4194304 --microbatches 1",
        "schedule --kind interleaved --pp 4 --microbatches 8 --stages-per-rank 0",
        "schedule --kind interleaved --pp 4 --microbatches 8 --stages-per-rank -1",
        "schedule --kind interleaved --pp 4 --microbatches 8 --stages-per-rank 9223372036854775807",
        "schedule --kind auto --pp 100000 --microbatches 1",
        "schedule --pp 4 --microbatches 0",
        "schedule --pp 4 --microbatches 8 --f nan",
        "schedule --pp 4 --microbatches 8 --f 1e999",
        "schedule --pp 4 --microbatches 8 --f -1",
        "schedule --step 1",
        "trace",
        "inspect",
        "export",
        "run",
        "run --nproc 0 true",
        "run --nproc 1000000000 true",
        "run --nproc -1 true",
        "run --nnodes 0 true",
        "run --grace nan true",
        "run --max-restarts -1 true"}) {
    expect_calm(arguments, true);
  }
}

#ifdef TESSERA_HAS_TORCH
TEST_F(Hostile, Training) {
  std::vector<std::string> lines{"--model hf_pipe --data text",
                                 "--model hf_layers --data text",
                                 "--model hf_memory --data text --seq 4 --batch 1",
                                 "--config pipe.toml",
                                 "--data pipe",
                                 "--steps 9223372036854775807",
                                 "--threads 1000000000"};
  const std::vector<std::string> more{
      "--model hf_vocabulary --data text",
      "--model hf_product --data text",
      "--model hf_deep --data text",
      "--model none --data text",
      "--model pipe --data text",
      "--config /dev/zero",
      "--config steps.toml",
      "--config whole.csv",
      "--config none",
      "--data /dev/zero",
      "--data none",
      "--data empty",
      "--data zeros",
      "--data pipe.npy",
      "--data overflow.npy",
      "--steps 0",
      "--steps -1",
      "--steps 9223372036854775808",
      "--threads -1",
      "--threads x",
      "--batch 0",
      "--seq 9223372036854775807 --data text",
      "--batch 9223372036854775807 --data text",
      "--nproc 0",
      "--nproc 1000000000",
      "--dp 0",
      "--pp 65537",
      "--lr nan",
      "--lr -1",
      "--dtype int8",
      "--device tpu",
      "--model.hidden_size=100000000 --data text",
      "--model.num_hidden_layers=2147483648",
      "--model.num_hidden_layers=60000 --model.hidden_size=65536 --data text",
      "--microbatches 9223372036854775807 --pp 2",
      "--schedule pipe.csv --pp 2 --microbatches 2",
      "--schedule huge.csv --pp 2 --microbatches 2",
      "'--data=\xff'",
      "--optim.lr=",
      "--train.steps=1e3",
      "--no.such=1"};
  if (soak()) lines.insert(lines.end(), more.begin(), more.end());
  for (const std::string& line : lines) {
    expect_calm(concat("train --nproc 1 --run-dir run ", line), true);
    EXPECT_FALSE(fs::exists(folder_.path("run/metrics.jsonl"))) << line;
  }
}
#endif

TEST_F(Hostile, EveryFlagWithEveryValue) {
  const std::vector<std::string> commands{
      "ranks --world 64 --tp @",
      "ranks --world @ --tp 2",
      "ranks --world 64 --tp 2 --cp @",
      "ranks --world 64 --tp 2 --pp @",
      "ranks --world 64 --ep @",
      "ranks --world 64 --tp 8 --rank @",
      "ranks --world 64 --order @",
      "ranks --world 64 --tp 8 --gpus-per-node @",
      "ranks --world 64 --color @",
      "ranks --world 64 --tp 8 --to @",
      "schedule --kind @ --pp 2 --microbatches 2",
      "schedule --pp @ --microbatches 8",
      "schedule --pp 2 --microbatches @",
      "schedule --pp 2 --microbatches 2 --f @",
      "schedule --kind interleaved --pp 2 --microbatches 2 --stages-per-rank @",
      "schedule --pp 2 --microbatches 2 --memory-limit @",
      "schedule --pp 2 --microbatches 2 --comm @",
      "schedule --compare @ --pp 2 --microbatches 2",
      "trace whole.json --out @/x",
      "export . out --shard-size @",
      "run --nproc @ true",
      "run --grace @ true"};
  const std::vector<std::string> values{"0",
                                        "-1",
                                        "1.5",
                                        "1e9",
                                        "9223372036854775807",
                                        "9223372036854775808",
                                        "-9223372036854775808",
                                        "nan",
                                        "inf",
                                        "''",
                                        "' '",
                                        "x",
                                        "'\xff'",
                                        "'\x1b[2J'",
                                        "2,2",
                                        "2\\;2",
                                        "0x10",
                                        "+1",
                                        "１",
                                        "--",
                                        "%s%n"};
  const size_t stride = soak() ? 1 : 11;  // Coprime to both lengths: all are met now and then.
  for (size_t i = 0; i < commands.size() * values.size(); i += stride) {
    std::string command = commands[i / values.size()];
    command.replace(command.find('@'), 1, values[i % values.size()]);
    if (command.find("--nproc 9") != std::string::npos) continue;  // Many ranks are no fault.
    expect_calm(command, false);
  }
}

TEST_F(Hostile, ChangedFiles) {
  struct Kind {
    std::string verb;
    std::string name;
    std::string content;
  };
  const std::vector<Kind> kinds{{"inspect", "x.safetensors", safetensors(kTensor, "abcd")},
                                {"inspect", "x.npy", npy(kTokens, "abcd")},
                                {"trace --out t.json", "x.json", kDump},
                                {"schedule --csv-in", "x.csv", kTable}};
  std::mt19937 random(0);  // The same changes in every run.
  for (const auto& [verb, name, content] : kinds) {
    for (int round = 0; round < (soak() ? 200 : 6); ++round) {
      std::string changed = content;
      const size_t at = random() % changed.size();
      if (round % 3 == 0) changed.resize(at);
      if (round % 3 == 1) changed[at] = static_cast<char>(random());
      if (round % 3 == 2) changed.insert(at, std::string(1 + random() % 9, changed[at]));
      folder_.file(name, changed);
      expect_calm(concat(verb, " ", name), false);
    }
  }
}

}  // namespace
}  // namespace tessera
