// `tessera trace` as a user runs it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/text.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/trace.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::Finished;

class Trace : public testing::Test {
 protected:
  // The folder of the scenario's dumps.
  std::string dumps(const std::string& scenario) const {
    const fs::path folder = folder_.path(scenario);
    fs::create_directories(folder);
    const Finished finished =
        testkit::run(TESSERA_FLIGHT_DUMPS " " + scenario + " " + folder.string());
    EXPECT_EQ(finished.code, 0) << finished.err;
    return folder.string();
  }

  Finished trace(const std::string& arguments) const {
    return testkit::run("cd " + folder_.path() + " && " TESSERA_PROGRAM " trace " + arguments);
  }

  std::string trace_of(const std::string& scenario) const {
    const Finished finished = trace(dumps(scenario) + "/*.json");
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_EQ(finished.err, "");
    for (const auto line : split(finished.out, '\n')) EXPECT_LE(line.size(), 80U) << line;
    return finished.out;
  }

  std::string written() const {
    std::ifstream file(folder_.path("trace.json"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const testkit::TemporaryFolder folder_;
};

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
}

TEST_F(Trace, AGoodRun) {
  const std::string said = trace_of("good");
  expect_in(said, "job job-7: dumps of 4 of 4 ranks\nwritten by ranks 0-3: SIGUSR1\n");
  expect_in(said, "   3  node-1  all_reduce #18 of group world  left it 30.0 s ago\n");
  expect_in(said, "\nno rank is behind, and no operation differs\n");
  expect_in(said, "\ntrace: trace.json (ui.perfetto.dev opens it)\n");
  const nlohmann::json events = testkit::checked_trace(written());
  const auto spans = std::ranges::count(events, "X", [](const auto& event) { return event["ph"]; });
  EXPECT_EQ(spans, 4 * (18 + 5 + 10));
}

TEST_F(Trace, ARankBehind) {
  for (const char* scenario : {"behind", "forgetful-behind"}) {
    expect_in(trace_of(scenario),
              "\nrank 2 is behind: it left all_reduce #18 of group world 30.0 s ago\n"
              "  rank 3 waits for it in all_reduce #6 of group dp for 30.0 s\n");
    expect_in(written(), "all_reduce #6 (pending)");
    testkit::checked_trace(written());
  }
}

TEST_F(Trace, AMessageThatNobodySent) {
  expect_in(trace_of("message"),
            "\nrank 0 is behind: it left all_reduce #18 of group world 30.0 s ago\n"
            "  rank 2 waits for it in recv from rank 0 #6 of group pp for 30.0 s\n");
}

TEST_F(Trace, OperationsThatDiffer) {
  expect_in(trace_of("mismatch"),
            "\n#19 of group world differs:\n"
            "  ranks 0,1,3: all_reduce Float[1024, 8]\n"
            "  rank 2: all_reduce Float[512, 8]\n");
}

TEST_F(Trace, ADumpIsMissing) {
  const std::string folder = dumps("behind");
  fs::remove(folder + "/rank_2.json");
  const Finished finished = trace(folder + " --out other.json");
  EXPECT_EQ(finished.code, 0) << finished.err;
  expect_in(finished.out, "dumps of 3 of 4 ranks\n");
  expect_in(finished.out, "\nno dump of rank 2\nrank 2 is behind: it left no dump\n");
  EXPECT_TRUE(fs::exists(folder_.path("other.json")));
}

TEST_F(Trace, EmphasisOnDemand) {
  const std::string files = dumps("behind") + "/*.json";
  EXPECT_EQ(trace(files).out.find('\x1b'), std::string::npos);
  expect_in(trace(files + " --color always").out, "\x1b[1mrank 2 is behind\x1b[");
}

TEST_F(Trace, BadInputIsRefusedAndNothingWritten) {
  struct Refusal {
    std::string arguments;
    int code;
    const char* message;
  };
  const std::string good = dumps("good");
  const std::string first = good + "/rank_0.json";
  testkit::run("sed s/job-7/job-8/ " + good + "/rank_1.json >" + good + "/other");
  testkit::run("sed 's/\"restart\":0/\"restart\":1/' " + good + "/rank_1.json >" + good + "/again");
  testkit::run("head -c 1000 " + first + " >" + good + "/cut");
  testkit::run("truncate -s 70M " + good + "/large; touch " + good + "/empty; mkdir " + good +
               "/none");
  const std::vector<Refusal> refusals{
      {"", 2, "no dumps were given; name the files that the ranks wrote"},
      {good + "/none", 2, "/none holds no dumps"},
      {"no_such_file", 1, "cannot open no_such_file"},
      {first + " " + first, 2, "are both from rank 0; give one dump per rank"},
      {first + " " + good + "/other", 2, "are from different jobs, 'job-7' and 'job-8'"},
      {first + " " + good + "/again", 2, "are from different attempts, restart 0 and 1"},
      {good + "/cut", 1, "/cut: broken JSON near byte"},
      {good + "/large", 1, "/large: larger than the 67,108,864 bytes"},
      {good + "/empty", 1, "/empty: broken JSON"},
      {"/dev/zero", 1, "/dev/zero is a device, not a regular file"},
      {first + " --out " + first, 2, "is one of the dumps; name another file"},
      {first + " --out /no/such/folder/x", 1, "cannot write /no/such/folder/x"},
      {first + " --uot x", 2, "did you mean '--out'?"},
  };
  for (const Refusal& refusal : refusals) {
    const Finished finished = trace(refusal.arguments);
    EXPECT_EQ(finished.code, refusal.code) << refusal.arguments;
    EXPECT_EQ(finished.out, "") << refusal.arguments;
    expect_in(finished.err, refusal.message);
    EXPECT_FALSE(fs::exists(folder_.path("trace.json"))) << refusal.arguments;
  }
}

}  // namespace
}  // namespace tessera
