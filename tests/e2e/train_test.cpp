// `tessera train` and `tessera export` as users run them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tessera/base/text.h"
#include "tessera/format/unit_record.h"
#include "tessera/launch/socket.h"
#include "tests/testkit/background.h"
#include "tests/testkit/process.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testkit::Background;
using testkit::Finished;
using testkit::TemporaryFolder;

const std::string kModels = TESSERA_GOLDEN_DIR "/llama/";

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

// Path and content of every file below a folder.
std::map<std::string, std::string> content_of(const fs::path& folder) {
  std::map<std::string, std::string> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      content[entry.path().lexically_relative(folder)] = text_of(entry.path());
    }
  }
  return content;
}

std::string as_u16(const std::vector<int>& tokens) {
  std::string bytes;
  for (const int token : tokens) {
    bytes += static_cast<char>(token & 255);
    bytes += static_cast<char>(token >> 8);
  }
  return bytes;
}

const json& peer() {
  static const json table = json::parse(text_of(TESSERA_GOLDEN_DIR "/llama_losses.json"));
  return table;
}

// tests/gpu.sh asks for one.
std::string device_flag() {
  const char* const device = std::getenv("TESSERA_TEST_DEVICE");
  return device == nullptr ? "" : concat(" --device ", device);
}

bool appears(const fs::path& path) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!fs::exists(path) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  return fs::exists(path);
}

// In the order of their forward passes.
std::vector<std::string> unit_names(const UnitRecord& record) {
  std::vector<std::string> names;
  for (const UnitEvent& event : record.events) {
    if (event.action == UnitAction::kForward) names.push_back(event.unit);
  }
  return names;
}

std::vector<TimeSpan> times_of(const UnitRecord& record, const std::string& unit,
                               UnitAction action) {
  std::vector<TimeSpan> times;
  for (const UnitEvent& event : record.events) {
    if (event.unit == unit && event.action == action) times.push_back(event.time);
  }
  return times;
}

// Gathered, computed and freed; no backward pass reads its parameters.
void expect_life_of_embedding(const UnitRecord& record, const std::string& unit) {
  using enum UnitAction;
  for (const UnitAction action : {kGather, kHeld, kForward, kBackward, kReduce}) {
    EXPECT_EQ(times_of(record, unit, action).size(), 1U) << unit;
  }
}

// Gathered, computed, freed, gathered again, computed, freed and reduced, in this order.
void expect_whole_life(const UnitRecord& record, const std::string& unit) {
  using enum UnitAction;
  const auto gathers = times_of(record, unit, kGather);
  const auto held = times_of(record, unit, kHeld);
  const auto forward = times_of(record, unit, kForward);
  const auto backward = times_of(record, unit, kBackward);
  const auto reduce = times_of(record, unit, kReduce);
  ASSERT_EQ(gathers.size(), 2U) << unit;
  ASSERT_EQ(held.size(), 2U) << unit;
  ASSERT_EQ(forward.size(), 1U) << unit;
  ASSERT_EQ(backward.size(), 1U) << unit;
  ASSERT_EQ(reduce.size(), 1U) << unit;
  const std::vector<double> order{
      held[0].start,   gathers[0].start, gathers[0].end,   forward[0].start, forward[0].end,
      held[0].end,     held[1].start,    gathers[1].start, gathers[1].end,   backward[0].start,
      backward[0].end, held[1].end,      reduce[0].start,  reduce[0].end,    record.seconds};
  EXPECT_TRUE(std::ranges::is_sorted(order)) << unit << ": " << join(order, " ");
}

// The next unit is gathered while this one computes, in both directions.
void expect_prefetch(const UnitRecord& record, const std::vector<std::string>& units) {
  using enum UnitAction;
  for (size_t i = 0; i + 1 < units.size(); ++i) {
    EXPECT_LT(times_of(record, units[i + 1], kGather)[0].start,
              times_of(record, units[i], kForward)[0].end)
        << units[i];
    if (i == 0) continue;  // The embedding.
    EXPECT_LT(times_of(record, units[i], kGather)[1].start,
              times_of(record, units[i + 1], kBackward)[0].end)
        << units[i];
  }
}

class Train : public testing::Test {
 protected:
  const TemporaryFolder folder_;
  const std::string run_ = folder_.path("run");
  const std::string tokens_ = folder_.file("tokens.bin", as_u16(peer()["tokens"]));

  // The fixed interface, in which a model and tokens are given.
  std::string fixed(const std::string& more = "", const std::string& model = "untied") const {
    return concat(" train --model ", kModels, model, " --data ", tokens_, " --nproc 1 --steps 20",
                  " --batch ", peer()["batch"], " --seq ", peer()["seq"], " --lr ", peer()["lr"],
                  " --weight-decay ", peer()["weight_decay"],
                  " --no-shuffle --no-clip --threads 1 --dtype fp32 --run-dir ", run_,
                  device_flag(), " ", more);
  }
  static Finished tessera(const std::string& arguments) {
    return testkit::run(TESSERA_PROGRAM + arguments);
  }
  std::vector<json> steps() const {
    std::vector<json> steps;
    std::ifstream file(run_ + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) steps.push_back(json::parse(line));
    return steps;
  }
  std::vector<double> losses() const {
    std::vector<double> losses;
    for (const json& step : steps()) losses.push_back(step["loss"]);
    return losses;
  }
  static std::vector<std::string> words_of(const std::string& arguments) {
    std::vector<std::string> words{TESSERA_PROGRAM};
    for (const std::string_view word : split(arguments, ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
    return words;
  }
  // Nothing is left of what was refused, and the message names what is wrong.
  void expect_refused(const std::string& arguments, int code, const std::string& words) const {
    const Finished result = tessera(arguments);
    EXPECT_EQ(result.code, code) << arguments << "\n" << result.err;
    EXPECT_NE(result.err.find(words), std::string::npos) << arguments << "\n" << result.err;
    EXPECT_FALSE(fs::exists(run_)) << arguments;
  }
};

// --- What is computed ---

TEST_F(Train, HasTheLossesOfPyTorch) {
  for (const auto& [model, expected] : peer()["losses"].items()) {
    fs::remove_all(run_);
    const Finished result = tessera(fixed("", model));
    ASSERT_EQ(result.code, 0) << result.err;
    ASSERT_EQ(losses().size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(losses()[i], expected[i].get<double>(), 1e-4) << model << ", step " << i;
    }
  }
}

TEST_F(Train, HasTheSameLossesOnSeveralRanks) {
  for (const auto& [model, expected] : peer()["losses"].items()) {
    for (const std::string way : {"--dp 2 --parallel.nproc=2", "--pp 2 --parallel.nproc=2",
                                  "--dp 2 --pp 2 --parallel.nproc=4 --microbatches 2"}) {
      fs::remove_all(run_);
      const Finished result = tessera(fixed(way, model));
      ASSERT_EQ(result.code, 0) << way << "\n" << result.err;
      ASSERT_EQ(losses().size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(losses()[i], expected[i].get<double>(), 1e-4) << way << ", " << model << i;
      }
    }
  }
}

TEST_F(Train, RecordsStepsOfAPipelineAndShowsThem) {
  const std::string way =
      " --dp 2 --pp 2 --parallel.nproc=4 --microbatches 2 --run.record_every=10";
  ASSERT_EQ(tessera(fixed(way + " --run.save=true")).code, 0);
  for (const char* const file : {"step-9.rank-0", "step-9.rank-1", "step-19.rank-0"}) {
    EXPECT_TRUE(fs::exists(concat(run_, "/pipeline/", file, ".json"))) << file;
  }
  const std::string report = text_of(run_ + "/report.html");
  EXPECT_NE(report.find("Step 19 as it ran"), std::string::npos);
  EXPECT_NE(report.find("The same step simulated"), std::string::npos);
  EXPECT_NE(report.find("dp_replicate"), std::string::npos);
  EXPECT_EQ(tessera(" schedule --from-trace " + run_).code, 0);
  EXPECT_EQ(tessera(" inspect " + run_ + "/model").code, 0);
  ASSERT_EQ(tessera(fixed("--overwrite")).code, 0);
  EXPECT_FALSE(fs::exists(run_ + "/pipeline")) << "of the former run";
}

TEST_F(Train, RecordsStepsOfShardedUnitsAndShowsThem) {
  const std::string way =
      " --dp 2 --dp-type fsdp --parallel.nproc=2 --parallel.reshard=always --run.record_every=10";
  ASSERT_EQ(tessera(fixed(way)).code, 0);
  EXPECT_FALSE(fs::exists(run_ + "/pipeline"));
  EXPECT_EQ(recorded_unit_steps(run_), (std::vector<int64_t>{9, 19}));
  const std::vector<UnitRecord> ranks = read_unit_records(run_, 19);
  ASSERT_EQ(ranks.size(), 2U);
  for (const UnitRecord& record : ranks) {
    const auto units = unit_names(record);
    EXPECT_EQ(units.size(), 4U) << "embedding, two layers, head";
    expect_life_of_embedding(record, units.at(0));
    for (size_t i = 1; i < units.size(); ++i) expect_whole_life(record, units[i]);
    expect_prefetch(record, units);
  }
  const std::string drawn = folder_.path("units.svg");
  const Finished shown =
      tessera(concat(" schedule --from-trace ", run_, " --units --rank 1 --svg ", drawn));
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("communication of rank 1: "), std::string::npos) << shown.out;
  EXPECT_NE(text_of(drawn).find("Units of rank 1 in step 19"), std::string::npos);
  EXPECT_NE(text_of(run_ + "/report.html").find("The units in step 19"), std::string::npos);
  ASSERT_EQ(tessera(fixed("--overwrite")).code, 0);
  EXPECT_FALSE(fs::exists(run_ + "/units")) << "of the former run";
}

TEST_F(Train, WritesTheFieldsOfTheFixedInterface) {
  ASSERT_EQ(tessera(fixed()).code, 0);
  const auto all = steps();
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : all[i].items()) keys.push_back(key);
    EXPECT_EQ(keys, (std::vector<std::string>{"grad_norm", "loss", "lr", "mem_bytes", "ms", "step",
                                              "tokens_per_s"}));
    EXPECT_EQ(all[i]["step"], i);
    EXPECT_EQ(all[i]["lr"], peer()["lr"]);
  }
  EXPECT_FALSE(fs::exists(run_ + "/model"));  // Nobody asked for it.
}

TEST_F(Train, TheSameRunTwiceGivesTheSameBits) {
  const auto outcome = [&] {
    EXPECT_EQ(tessera(fixed("--overwrite --run.save=true --train.threads=2")).code, 0);
    return std::pair(losses(), content_of(run_ + "/model"));
  };
  EXPECT_EQ(outcome(), outcome());
}

TEST_F(Train, OtherDtypesComeNear) {
  for (const auto& [dtype, tolerance] : {std::pair{"fp64", 1e-4}, std::pair{"bf16", 0.05}}) {
    ASSERT_EQ(tessera(fixed(concat("--overwrite --train.dtype=", dtype))).code, 0);
    for (size_t i = 0; i < losses().size(); ++i) {
      const double expected = peer()["losses"]["untied"][i];
      EXPECT_NEAR(losses()[i], expected, tolerance * expected) << dtype << ", step " << i;
    }
  }
}

// --- What is seen and kept ---

// The rate grows until gradient norms are spikes. Shards that are kept gathered must take the
// weights of the checkpoint, too.
TEST_F(Train, RollsBackToTheSameWeightsInAllLayouts) {
  std::vector<std::pair<double, json>> expected;
  for (const std::string way : {"ddp", "zero1", "fsdp --parallel.reshard=never"}) {
    fs::remove_all(run_);
    const Finished result = tessera(
        fixed(concat("--train.steps=40 --optim.lr=1 --optim.warmup=39 --spike 1.5 --non-finite "
                     "rollback --save-every 4 --check-replicas 1 --dp 2 --parallel.nproc=2 "
                     "--dp-type ",
                     way)));
    ASSERT_EQ(result.code, 0) << way << "\n" << result.err;
    std::vector<std::pair<double, json>> found;
    for (const json& step : steps()) {
      found.emplace_back(step["loss"], step.value("rolled_back_to", json()));
    }
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected) << way;
    EXPECT_NE(result.err.find("the run continues with the weights after"), std::string::npos);
  }
}

TEST_F(Train, ValidatesAndExportsTheAverageOfItsWeights) {
  std::vector<double> expected;
  for (const std::string way :
       {"--dp 1", "--dp 2 --parallel.nproc=2 --dp-type zero1",
        "--dp 2 --parallel.nproc=2 --dp-type fsdp", "--pp 2 --parallel.nproc=2"}) {
    fs::remove_all(run_);
    const Finished result = tessera(
        fixed(concat("--train.steps=4 --ema-decay 0.5 --validate-ema --train.validate_every=1 "
                     "--data.validation_share=0.2 --save-every 4 --run.save=true ",
                     way)));
    ASSERT_EQ(result.code, 0) << way << "\n" << result.err;
    std::vector<double> found;
    for (const json& step : steps()) found.push_back(step["validation_loss"]);
    if (expected.empty()) expected = found;
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4) << way;
  }
  const std::string out = folder_.path("ema");
  const Finished exported = tessera(concat(" export ", run_, " ", out, " --ema"));
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_NE(text_of(out + "/model.safetensors"), text_of(run_ + "/model/model.safetensors"));
  EXPECT_EQ(tessera(" inspect " + out).code, 0);
}

TEST_F(Train, TracesChosenSteps) {
  const Finished result =
      tessera(fixed("--train.steps=4 --trace-steps 1-2 --dp 2 --parallel.nproc=2"));
  ASSERT_EQ(result.code, 0) << result.err;
  for (const int rank : {0, 1}) {
    const std::string path = concat(run_, "/trace/steps-1-2.rank-", rank, ".json");
    const json trace = json::parse(text_of(path));
    std::map<std::string, int> spans;
    int counters = 0;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "X") ++spans[event["name"]];
      if (event["ph"] == "C") ++counters;
    }
    EXPECT_EQ(spans["step 1"] + spans["step 2"], 2) << rank;
    EXPECT_EQ(spans.count("step 0") + spans.count("step 3"), 0U) << rank;
    EXPECT_GT(spans["aten::mm"], 0) << rank;
    EXPECT_GT(counters, 0) << rank;
    EXPECT_TRUE(std::ranges::any_of(spans, [](const auto& span) {
      return span.first.find("all_reduce") != std::string::npos;
    })) << rank;
  }
}

TEST_F(Train, WithoutFlagsLearnsFromTheProjectItself) {
  const Finished result = tessera(" train --train.steps=3 --run-dir " + run_);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(steps().size(), 3U);
  EXPECT_TRUE(steps().back().contains("validation_loss"));
  for (const char* name : {"config.toml", "report.html", "model/config.json"}) {
    EXPECT_TRUE(fs::exists(fs::path(run_) / name)) << name;
  }
  EXPECT_NE(result.out.find("validation"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("tessera export " + run_), std::string::npos) << result.out;
}

TEST_F(Train, SaysOneLineASecondToAPipe) {
  const auto start = std::chrono::steady_clock::now();
  const Finished result = tessera(fixed("--train.steps=300"));
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(result.code, 0) << result.err;
  const auto lines = std::ranges::count(result.err, '\n');
  EXPECT_LE(static_cast<double>(lines), taken.count() + 4)
      << result.err;  // Two of heading, first, last.
  EXPECT_NE(result.err.find("300/300"), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
}

TEST_F(Train, ItsPrintedConfigGivesTheSameRun) {
  const Finished printed = tessera(fixed("--print-config"));
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_FALSE(fs::exists(run_));
  const std::string file = folder_.file("run.toml", printed.out);
  EXPECT_EQ(tessera(" train --print-config --config " + file).out, printed.out);
  ASSERT_EQ(tessera(" train --config " + file).code, 0);
  EXPECT_EQ(text_of(run_ + "/config.toml"), printed.out);
}

TEST_F(Train, ASignalEndsItAfterItsStep) {
  for (const char* ranks : {"", "--dp 2 --parallel.nproc=2"}) {
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      SCOPED_TRACE(concat("signal ", number, " ", ranks));
      fs::remove_all(run_);
      Background run(words_of(fixed(concat("--train.steps=1000000 --run.save=true ", ranks))));
      run.await("step 1/");
      run.signal(number);
      const Finished result = run.finish();
      EXPECT_EQ(result.code, 128 + number) << result.err;
      EXPECT_FALSE(steps().empty());
      EXPECT_LT(steps().size(), 1000000U);
      EXPECT_TRUE(fs::exists(run_ + "/report.html"));
      EXPECT_EQ(tessera(" inspect " + run_ + "/model").code, 0);
      EXPECT_NE(result.out.find(run_), std::string::npos) << result.out;
    }
  }
}

TEST_F(Train, Sigusr1WritesTheLastOperationsAndTrainsOn) {
  for (const size_t ranks : {1U, 2U}) {
    SCOPED_TRACE(ranks);
    const std::string dumps = folder_.path(concat("dumps", ranks));
    Background run(words_of(fixed(concat("--train.steps=1000000 --overwrite --dp ", ranks,
                                         " --parallel.nproc=", ranks))),
                   {{"TESSERA_TRACE_DIR", dumps}});
    run.await("step 1/");
    run.signal(SIGUSR1);  // To the launcher, or to the only rank.
    run.await("SIGUSR1: the last operations are in " + dumps, ranks);
    run.signal(SIGINT);
    EXPECT_EQ(run.finish().code, 128 + SIGINT);
    for (size_t rank = 0; rank < ranks; ++rank) {
      const json dump = json::parse(text_of(concat(dumps, "/rank_", rank, ".json")));
      EXPECT_EQ(dump["reason"], "SIGUSR1");
      EXPECT_EQ(dump["entries"].empty(), ranks == 1);
    }
  }
}

TEST_F(Train, Sigusr1DoesNotEndARankThatWaitsForTheOthers) {
  Background first(
      words_of(fixed("--dp 2 --parallel.nproc=2")),
      {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}});
  ASSERT_TRUE(appears(run_ + "/run.lock"));  // It has begun.
  first.signal(SIGUSR1);
  first.await("tessera: SIGUSR1: ");
  first.signal(SIGTERM);
  EXPECT_EQ(first.finish().code, 128 + SIGTERM);
}

TEST_F(Train, AReaderThatIsGoneDoesNotEndIt) {
  const Finished result =
      testkit::run(concat("bash -c '", TESSERA_PROGRAM, fixed("--run.save=true"),
                          " 2>&1 | head -n 1; exit ${PIPESTATUS[0]}'"));
  EXPECT_EQ(result.code, 1) << result.err;  // What it found could not be shown.
  EXPECT_EQ(steps().size(), 20U);
  EXPECT_TRUE(fs::exists(run_ + "/report.html"));
  EXPECT_EQ(tessera(" inspect " + run_ + "/model").code, 0);
}

TEST_F(Train, AFileThatMayNotGrowIsNamed) {
  const Finished result =
      testkit::run(concat("ulimit -f 32; ", TESSERA_PROGRAM, fixed("--train.steps=1000")));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("cannot write " + run_ + "/metrics.jsonl: File too large"),
            std::string::npos)
      << result.err;
  const std::string metrics = text_of(run_ + "/metrics.jsonl");
  EXPECT_EQ(json::parse(metrics.substr(0, metrics.find('\n')))["step"], 0);
}

// --- A rank ---

TEST_F(Train, IsTheRankThatItIsToldToBe) {
  const std::string place = "RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 ";
  const Finished result = testkit::run(place + TESSERA_PROGRAM + fixed());
  EXPECT_EQ(result.code, 0) << result.err;
  fs::remove_all(run_);
  const Finished other = testkit::run(
      "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 " TESSERA_PROGRAM + fixed());
  EXPECT_EQ(other.code, 2) << other.err;
  EXPECT_NE(other.err.find("has started 2 ranks, but --nproc is 1"), std::string::npos)
      << other.err;
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(Train, IsOneJobUnderMpirun) {
  const std::string mpirun = "mpirun --allow-run-as-root --oversubscribe -n 2 " TESSERA_PROGRAM;
  const Finished result = testkit::run(mpirun + fixed("--dp 2 --parallel.nproc=2"));
  ASSERT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(losses().size(), 20U);
  for (size_t i = 0; i < losses().size(); ++i) {
    EXPECT_NEAR(losses()[i], peer()["losses"]["untied"][i].get<double>(), 1e-4) << i;
  }
  const std::string ranks = "on 2 ranks (dp 2)";
  EXPECT_NE(result.err.find(ranks), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(ranks), result.err.rfind(ranks)) << result.err;

  const Finished wrong = testkit::run(mpirun + fixed("--overwrite"));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("the launcher (open mpi) has started 2 ranks, but --nproc is 1"),
            std::string::npos)
      << wrong.err;
}

// The first rank chooses the directory for all.
TEST_F(Train, RanksOfOtherLaunchersShareANewRunDirectory) {
  const Finished result = testkit::run(
      concat("cd ", folder_.path(), " && mpirun --allow-run-as-root --oversubscribe -n 2 ",
             TESSERA_PROGRAM, " train --pp 2 --microbatches 2 --model ", kModels, "untied --data ",
             tokens_, " --batch 2 --seq 8 --steps 2 --run.record_every=2 --run.save=true"));
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* name : {"config.toml", "report.html", "model/config.json",
                           "pipeline/step-1.rank-0.json", "pipeline/step-1.rank-1.json"}) {
    EXPECT_TRUE(fs::exists(folder_.path(concat("runs/1/", name)))) << name;
  }
  EXPECT_FALSE(fs::exists(folder_.path("runs/2")));
}

TEST_F(Train, IsOneJobInAStepOfSlurm) {
  const PortReservation reserved("127.0.0.1");
  const auto rank = [&](const std::string& number) {
    return std::make_unique<Background>(
        words_of(fixed("--dp 2 --parallel.nproc=2")),
        std::map<std::string, std::string>{{"SLURM_PROCID", number},
                                           {"SLURM_NTASKS", "2"},
                                           {"SLURM_LOCALID", number},
                                           {"SLURM_NNODES", "1"},
                                           {"SLURM_STEP_ID", "0"},
                                           {"MASTER_PORT", std::to_string(reserved.port())}});
  };
  const auto first = rank("0");
  const auto second = rank("1");
  EXPECT_EQ(first->finish().code, 0) << first->seen().err;
  EXPECT_EQ(second->finish().code, 0) << second->seen().err;
  EXPECT_EQ(concat(second->seen().out, second->seen().err), "");  // The first one tells.
  EXPECT_EQ(steps().size(), 20U);
}

// --- Errors of ranks ---

TEST_F(Train, AnErrorOfAllRanksIsSaidOnce) {
  const Finished result = tessera(fixed("--data.seq=1000 --dp 2 --parallel.nproc=2"));
  EXPECT_EQ(result.code, 2) << result.err;
  const std::string words = "the data has ";
  EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(words), result.err.rfind(words)) << result.err;
}

TEST_F(Train, MemoryThatIsMissingIsSaidInALine) {
  const std::string command = concat("ulimit -d 1500000; ", TESSERA_PROGRAM,
                                     " train --nproc 1 --threads 1 --steps 1 --batch 512 --seq 512 "
                                     "--train.validate_every=0 --run-dir ",
                                     run_);
  const Finished result = testkit::run(command);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("\ntessera: out of memory: "), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("frame #"), std::string::npos) << result.err;
  const Finished traced = testkit::run("export TESSERA_BACKTRACE=1; " + command + " --overwrite");
  EXPECT_NE(traced.err.find("frame #"), std::string::npos) << traced.err;
}

TEST_F(Train, ALostStoreIsSaidInALine) {
  const PortReservation reserved("127.0.0.1");
  const auto rank = [&](const std::string& number) {
    return std::make_unique<Background>(
        std::vector<std::string>{TESSERA_PROGRAM, "train", "--dp", "2", "--steps", "100000",
                                 "--threads", "1", "--run-dir", run_},
        std::map<std::string, std::string>{{"RANK", number},
                                           {"WORLD_SIZE", "2"},
                                           {"LOCAL_RANK", number},
                                           {"LOCAL_WORLD_SIZE", "2"},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", std::to_string(reserved.port())}});
  };
  const auto first = rank("0");
  const auto second = rank("1");
  first->await("step 1/");
  first->signal(SIGKILL);
  const Finished result = second->finish();
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("rank 0"), std::string::npos) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
}

TEST_F(Train, CommandsThatItShowsCanBeCopied) {
  const std::string dir = folder_.path("my run");
  const Finished result = tessera(fixed(concat("--run.save=true --run.dir='", dir, "'")));
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find(concat("tessera export '", dir, "' DIR")), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find(concat("--model '", dir, "/model' ")), std::string::npos);
  EXPECT_NE(text_of(dir + "/report.html").find("'--run.dir=" + dir + "'"), std::string::npos);
}

// --- Bad input ---

TEST_F(Train, RefusesFilesThatAreMissingOrForeign) {
  const std::string here = folder_.path() + "/";
  const auto with_model = [&](const std::string& model) {
    return concat(" train --model ", model, " --data ", tokens_, " --batch 2 --seq 8 --run-dir ",
                  run_);
  };
  expect_refused(with_model(here + "none"), 1, here + "none/config.json");
  fs::create_directory(folder_.path("empty"));
  expect_refused(with_model(here + "empty"), 1, here + "empty/config.json");
  fs::create_directory(folder_.path("bert"));
  folder_.file("bert/config.json", R"({"model_type":"bert"})");
  expect_refused(with_model(here + "bert"), 1, "bert");
  expect_refused(fixed("--data.paths=" + here + "none.bin"), 1, here + "none.bin");
  expect_refused(fixed("--data.paths=" + folder_.file("odd.bin", "abc")), 1, "odd.bin");
  expect_refused(" train --run-dir " + run_ + " --config " + here + "none.toml", 1, "none.toml");
}

TEST_F(Train, RefusesWeightsThatDoNotFitTheConfig) {
  fs::copy(kModels + "untied", folder_.path("model"));
  const auto refused = [&](const std::string& key, const json& value, const std::string& words) {
    json config = json::parse(text_of(kModels + "untied/config.json"));
    config[key] = value;
    folder_.file("model/config.json", config.dump());
    expect_refused(concat(" train --model ", folder_.path("model"), " --data ", tokens_,
                          " --batch 2 --seq 8 --run-dir ", run_),
                   1, words);
  };
  refused("intermediate_size", 41, "the config needs [41, 32]");
  refused("num_hidden_layers", 3, "model.layers.2");
  refused("num_hidden_layers", 1, "model.layers.1");
  refused("tie_word_embeddings", "yes", "tie_word_embeddings");
}

TEST_F(Train, RefusesTokensBeyondTheVocabulary) {
  std::vector<int> tokens = peer()["tokens"];
  tokens[700] = 48;
  const std::string file = folder_.file("wide.bin", as_u16(tokens));
  const std::string data = fixed("--data.paths=" + file);
  expect_refused(data, 1, "wide.bin");
  const Finished result = tessera(data);
  EXPECT_NE(result.err.find("48"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("700"), std::string::npos) << result.err;
}

TEST_F(Train, RefusesDataThatIsShorterThanASampleOrABatch) {
  expect_refused(fixed("--data.seq=1000"), 2, "1000");
  expect_refused(fixed("--data.paths=" + folder_.file("short.bin", as_u16({1, 2, 3}))), 2, "short");
}

TEST_F(Train, RefusesFlagsThatContradictEachOther) {
  expect_refused(fixed("--overwrite --resume"), 2, "resume");
  expect_refused(fixed("--optim.clip=1"), 2, "clip");
  expect_refused(fixed("--model.hidden_size=64"), 2, "hidden_size");
  expect_refused(fixed("--parallel.nproc=3 --parallel.pp=2"), 2, "--nproc is 3");
  expect_refused(fixed("--schedule gpipe"), 2, "--pp");
  expect_refused(fixed("--parallel.ep=2 --dp 2 --parallel.nproc=2"), 2, "the model has none");
  expect_refused(fixed("--dp 8 --parallel.nproc=8"), 2, "too small");
  expect_refused(fixed("--pp 2 --parallel.nproc=2 --schedule gpip"), 2, "did you mean 'gpipe'");
  expect_refused(fixed("--pp 3 --parallel.nproc=3 --microbatches 4"), 2, "too few for 3 stages");
  expect_refused(fixed("--optim.warmup=21"), 2, "warm");
  expect_refused(fixed("--data.batch=0"), 2, "batch");
  expect_refused(fixed("--train.dtype=fp8"), 2, "fp8");
  expect_refused(fixed("--optim.accumulate=5"), 2, "5");
  expect_refused(fixed("--optim.leer=5"), 2, "did you mean");
  expect_refused(fixed("--stepps 5"), 2, "--steps");
}

TEST_F(Train, RefusesARunDirectoryWithContent) {
  ASSERT_EQ(tessera(fixed("--run.save=true")).code, 0);
  const auto before = content_of(run_);
  for (const char* flag : {"", "--resume"}) {
    const Finished result = tessera(fixed(flag));
    EXPECT_EQ(result.code, 2) << flag;
    EXPECT_NE(result.err.find(run_), std::string::npos) << result.err;
  }
  // What it starts from, and what it would do if it began.
  EXPECT_EQ(tessera(concat(" train --overwrite --model ", run_, "/model --data ", tokens_,
                           " --batch 2 --seq 8 --run-dir ", run_))
                .code,
            2);
  EXPECT_EQ(tessera(fixed("--overwrite --data.paths=" + folder_.path("none.bin"))).code, 1);
  EXPECT_EQ(content_of(run_), before);

  folder_.file("run/notes.txt", "mine");
  EXPECT_EQ(tessera(fixed("--overwrite")).code, 0);
  EXPECT_EQ(text_of(run_ + "/notes.txt"), "mine");
  EXPECT_FALSE(fs::exists(run_ + "/model"));
}

TEST_F(Train, ARunThatIsGoingOnKeepsItsDirectory) {
  Background run(words_of(fixed("--train.steps=1000000 --dp 2 --parallel.nproc=2")));
  run.await("step 1/");
  for (const char* flag : {"", "--overwrite", "--resume"}) {
    const Finished other = tessera(fixed(flag));
    EXPECT_EQ(other.code, 2) << other.err;
    const std::string words =
        concat("run directory ", run_, " belongs to a run in progress (process ");
    EXPECT_NE(other.err.find(words), std::string::npos) << other.err;
  }
  EXPECT_TRUE(fs::exists(run_ + "/config.toml"));
  run.signal(SIGTERM);
  EXPECT_EQ(run.finish().code, 128 + SIGTERM);
  EXPECT_EQ(tessera(fixed("--overwrite --train.steps=1")).code, 0);
  EXPECT_EQ(steps().size(), 1U);
}

TEST_F(Train, StartsWithoutARunDirectoryNeverCollide) {
  const std::string start = concat(TESSERA_PROGRAM, " train --model ", kModels, "untied --data ",
                                   tokens_, " --batch 2 --seq 8 --steps 2 --threads 1 --nproc ");
  const Finished all = testkit::run(concat("cd ", folder_.path(), "; ", start, "1 & ", start,
                                           "1 & ", start, "1 & ", start, "2 & wait"));
  for (const char* number : {"1", "2", "3", "4"}) {
    const std::string dir = concat("runs/", number);
    EXPECT_NE(all.err.find(concat("into ", dir, "\n")), std::string::npos) << all.err;
    const std::string metrics = text_of(folder_.path(dir + "/metrics.jsonl"));
    EXPECT_EQ(std::ranges::count(metrics, '\n'), 2) << dir;
    EXPECT_TRUE(fs::exists(folder_.path(dir + "/report.html"))) << dir;
  }
  EXPECT_FALSE(fs::exists(folder_.path("runs/5")));
}

TEST_F(Train, WhatAKilledRunLeftIsCleanedByTheNext) {
  Background run(words_of(fixed("--train.steps=1000000")));
  run.await("step 1/");
  run.signal(SIGKILL);
  run.finish();
  EXPECT_TRUE(fs::exists(run_ + "/run.lock"));
  std::ofstream(run_ + "/metrics.jsonl", std::ios::app) << R"({"step":7,"lo)";
  folder_.file("run/report.html.part123", "<html");
  EXPECT_EQ(tessera(fixed()).code, 2);
  ASSERT_EQ(tessera(fixed("--overwrite --train.steps=1")).code, 0);
  std::vector<std::string> names;
  for (const auto& [name, text] : content_of(run_)) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"config.toml", "metrics.jsonl", "report.html"}));
  EXPECT_EQ(steps().size(), 1U);
}

TEST_F(Train, RefusesToOverwriteWhatIsNoRun) {
  folder_.file("thesis.tex", "mine");
  const auto before = content_of(folder_.path());
  const Finished result = tessera(fixed("--overwrite --run.dir=" + folder_.path()));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(content_of(folder_.path()), before);
}

TEST_F(Train, NamesAFolderThatCannotBeWritten) {
  const Finished result = tessera(fixed("--run.dir=/proc/run"));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("/proc/run"), std::string::npos) << result.err;
}

// A file system of our own, which takes `pages` pages: it ends with the shell that made it.
class SmallDisk : public Train {
 protected:
  void SetUp() override {
    const Finished mounted = on_disk("size=64k", "true");
    if (mounted.code != 0) GTEST_SKIP() << "no file system can be mounted here: " << mounted.err;
  }
  Finished on_disk(const std::string& options, const std::string& command) const {
    fs::create_directories(run_);
    return testkit::run(concat("unshare -rm sh -c 'mount -t tmpfs -o ", options, " tmpfs ", run_,
                               " && ", command, "'"));
  }
};

TEST_F(SmallDisk, ThatIsFullEndsTheRunAndKeepsWhatWasWritten) {
  const Finished result =
      on_disk("size=24k", concat(TESSERA_PROGRAM, fixed("--train.steps=1000"),
                                 "; code=$?; head -n 1 ", run_, "/metrics.jsonl; exit $code"));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("cannot write " + run_ + "/metrics.jsonl: No space left"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(json::parse(result.out.substr(0, result.out.find('\n')))["step"], 0);
}

TEST_F(SmallDisk, TakesTheReportEvenWhereTheWeightsDoNotFit) {
  const Finished result = on_disk("size=96k", concat(TESSERA_PROGRAM, fixed("--run.save=true"),
                                                     "; code=$?; ls ", run_, "; exit $code"));
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find("cannot write " + run_ + "/model/"), std::string::npos) << result.err;
  EXPECT_NE(result.out.find("report.html"), std::string::npos) << result.out;
}

TEST_F(SmallDisk, ThatIsReadOnlyIsNamed) {
  const Finished result = on_disk("ro", TESSERA_PROGRAM + fixed());
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_NE(result.err.find(run_), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("Read-only file system"), std::string::npos) << result.err;
}

// --- Export ---

TEST_F(Train, ExportsItsWeights) {
  ASSERT_EQ(tessera(fixed("--run.save=true", "grouped_tied")).code, 0);
  const std::string out = folder_.path("out");
  const Finished exported = tessera(concat(" export ", run_, " ", out, " --shard-size 20KB"));
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_TRUE(fs::exists(out + "/model.safetensors.index.json"));
  EXPECT_EQ(text_of(out + "/config.json"), text_of(run_ + "/model/config.json"));
  const auto listed = [](const std::string& folder) {
    std::map<std::string, json> tensors;
    for (json tensor : json::parse(tessera(" inspect --json " + folder).out)["tensors"]) {
      tensor.erase("file");
      tensors[tensor["name"]] = tensor;
    }
    return tensors;
  };
  EXPECT_EQ(listed(out), listed(run_ + "/model"));

  const auto before = content_of(out);
  EXPECT_EQ(tessera(concat(" export ", run_, " ", out)).code, 2);
  EXPECT_EQ(content_of(out), before);
  // What was exported can be trained on.
  const Finished again =
      tessera(concat(" train --model ", out, " --data ", tokens_,
                     " --batch 2 --seq 8 --steps 1 --run-dir ", folder_.path("again")));
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(Train, ExportRefusesWhatHoldsNoWeights) {
  const std::string out = folder_.path("out");
  EXPECT_EQ(tessera(" export " + run_ + " " + out).code, 1);
  ASSERT_EQ(tessera(fixed("--train.steps=1")).code, 0);
  const Finished result = tessera(" export " + run_ + " " + out);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("--run.save=true"), std::string::npos) << result.err;
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(tessera(" export " + run_).code, 2);
  EXPECT_EQ(tessera(concat(" export ", run_, " ", out, " --shard-size 3XB")).code, 2);
}

}  // namespace
}  // namespace tessera
