#include "tessera/comm/internal/recorder.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tessera/base/text.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {

using namespace comm::detail;

namespace {

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override { recorder_->set_engine(*group_, "gloo"); }
  uint64_t reduce(uint64_t sequence, const at::Tensor& tensor = at::ones({2, 3})) {
    return recorder_->scheduled(group_, {.name = "all_reduce",
                                         .sequence = sequence,
                                         .timeout = std::chrono::seconds(9),
                                         .inputs = {&tensor, 1}});
  }

  std::shared_ptr<Recorder> recorder_ =
      Recorder::make({.launcher = "test", .rank = 1, .world_size = 2, .restart_count = 3}, "job");
  std::shared_ptr<RecordedGroup> group_ = recorder_->add_group("reduce-1f", "dp", to_ranks({0, 1}));
};

TEST_F(RecorderTest, KnowsWhereTheRankIs) {
  EXPECT_EQ(recorder_->latest_operation().operation, "");
  const uint64_t first = reduce(1);
  EXPECT_FALSE(recorder_->latest_operation().inside) << "nobody waits for it yet";
  recorder_->waiting(first);
  const uint64_t second = reduce(2);
  recorder_->waiting(second);
  EXPECT_TRUE(recorder_->latest_operation().inside);
  EXPECT_EQ(recorder_->latest_operation().operation, "all_reduce #1 of group dp") << "the oldest";
  recorder_->completed(first);
  EXPECT_EQ(recorder_->latest_operation().operation, "all_reduce #2 of group dp");
  recorder_->completed(second);
  EXPECT_FALSE(recorder_->latest_operation().inside);
  recorder_->set_place("close of the world");
  EXPECT_TRUE(recorder_->latest_operation().inside);
  EXPECT_EQ(recorder_->latest_operation().operation, "close of the world");
}

TEST_F(RecorderTest, KeepsTheLastThousand) {
  for (uint64_t i = 1; i <= 2500; ++i) recorder_->completed(reduce(i));
  const FlightDump dump = recorder_->dump("test");
  ASSERT_EQ(dump.entries.size(), Recorder::kCapacity);
  for (size_t i = 0; i < dump.entries.size(); ++i) {
    EXPECT_EQ(dump.entries[i].record_id, static_cast<int64_t>(1500 + i));
    EXPECT_EQ(dump.entries[i].collective_seq_id, static_cast<int64_t>(1501 + i));
  }
  recorder_->completed(0);  // Already overwritten: nothing happens.
  EXPECT_EQ(recorder_->dump("test").entries.front().record_id, 1500);
}

TEST_F(RecorderTest, RecordsShapesStatesAndGroups) {
  recorder_->waiting(reduce(1));
  const at::Tensor message = at::ones({4}, at::kLong);
  recorder_->scheduled(group_, {.name = "send",
                                .sequence = 1,
                                .p2p_sequence = 5,
                                .p2p = P2pEnds{.is_send = true, .self = 1, .peer = 0},
                                .inputs = {&message, 1}});
  const FlightDump dump = recorder_->dump("SIGUSR1");
  EXPECT_EQ(dump.rank, GlobalRank{1});
  EXPECT_EQ(dump.restart, 3);
  EXPECT_EQ(dump.reason, "SIGUSR1");
  ASSERT_EQ(dump.groups.size(), 1U);
  EXPECT_EQ(dump.groups[0].last_enqueued, 1);
  EXPECT_EQ(dump.groups[0].last_started, 1);
  EXPECT_EQ(dump.groups[0].last_completed, 0);
  ASSERT_EQ(dump.entries.size(), 2U);
  const FlightEntry& reduced = dump.entries[0];
  EXPECT_EQ(reduced.profiling_name, "gloo:all_reduce");
  EXPECT_EQ(reduced.inputs, (std::vector<FlightTensor>{{{2, 3}, "Float"}}));
  EXPECT_EQ(reduced.outputs, reduced.inputs);
  EXPECT_EQ(reduced.state, FlightState::kStarted);
  EXPECT_EQ(reduced.timeout_ms, 9000);
  EXPECT_LE(reduced.time_created_ns, *reduced.time_started_ns);
  const FlightEntry& sent = dump.entries[1];
  EXPECT_EQ(sent.profiling_name, "gloo:send 1->0");
  EXPECT_TRUE(sent.is_p2p);
  EXPECT_EQ(sent.p2p_seq_id, 5);
  EXPECT_EQ(sent.op_id, 2);
  EXPECT_EQ(sent.state, FlightState::kScheduled);
}

TEST_F(RecorderTest, ManyAndLongShapesAreKept) {
  const std::vector<at::Tensor> many(7, at::ones({2}));
  const std::vector<at::Tensor> longer{at::ones({1, 1, 1, 1, 1}), at::ones({1, 1, 1, 2})};
  recorder_->scheduled(group_, {.name = "all_reduce_coalesced", .sequence = 1, .inputs = many});
  recorder_->scheduled(group_, {.name = "all_gather_coalesced",
                                .sequence = 2,
                                .inputs = longer,
                                .output = std::vector<int64_t>{9, 2}});
  const FlightDump dump = recorder_->dump("test");
  EXPECT_EQ(dump.entries[0].inputs, std::vector<FlightTensor>(7, {{2}, "Float"}));
  EXPECT_EQ(dump.entries[1].inputs,
            (std::vector<FlightTensor>{{{1, 1, 1, 1, 1}, "Float"}, {{1, 1, 1, 2}, "Float"}}));
  EXPECT_EQ(dump.entries[1].outputs, (std::vector<FlightTensor>{{{9, 2}, "Float"}}));
}

// Dumps go to a folder where no other user can put a link, and follow no links.
class DumpFolderTest : public testing::Test {
 protected:
  DumpFolderTest() {
    unsetenv("TESSERA_TRACE_DIR");
    setenv("TMPDIR", folder_.path().c_str(), 1);
    std::ofstream(victim_) << "precious";
  }
  ~DumpFolderTest() override { unsetenv("TMPDIR"); }

  std::string content() const {
    std::ifstream file(victim_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testkit::TemporaryFolder folder_;
  const std::filesystem::path victim_ = std::filesystem::path(folder_.path()) / "victim";
  const std::filesystem::path made_ = std::filesystem::path(folder_.path()) / "tessera-trace-job";
  std::shared_ptr<Recorder> recorder_ =
      Recorder::make({.launcher = "test", .rank = 1, .world_size = 2}, "job");
};

TEST_F(DumpFolderTest, IsMadeForThisUserOnly) {
  EXPECT_EQ(recorder_->write_dump("test"), (made_ / "rank_1.json").string());
  const auto permissions = std::filesystem::status(made_).permissions();
  EXPECT_EQ(permissions, std::filesystem::perms::owner_all);
}

TEST_F(DumpFolderTest, OfAnotherOwnerOrOpenToOthersIsNotUsed) {
  std::filesystem::create_directory(made_);
  std::filesystem::permissions(made_, std::filesystem::perms::all);
  EXPECT_EQ(recorder_->write_dump("test"), "");
  EXPECT_TRUE(std::filesystem::is_empty(made_));
  std::filesystem::remove(made_);
  std::filesystem::create_directory_symlink(folder_.path(), made_);
  EXPECT_EQ(recorder_->write_dump("test"), "") << "a link to a folder";
}

TEST_F(DumpFolderTest, LinksInItAreReplacedNotFollowed) {
  setenv("TESSERA_TRACE_DIR", made_.c_str(), 1);
  std::filesystem::create_directory(made_);
  std::filesystem::create_symlink(victim_, made_ / "rank_1.json");
  for (int i = 0; i < 100; ++i) {
    std::filesystem::create_symlink(victim_,
                                    made_ / concat("rank_1.json.", getpid(), ".", i, ".tmp"));
  }
  EXPECT_NE(recorder_->write_dump("test"), "");
  unsetenv("TESSERA_TRACE_DIR");
  EXPECT_FALSE(std::filesystem::is_symlink(made_ / "rank_1.json"));
  EXPECT_EQ(content(), "precious");
}

}  // namespace
}  // namespace tessera
