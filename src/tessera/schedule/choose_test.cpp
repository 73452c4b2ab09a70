#include "tessera/schedule/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tessera/base/error.h"
#include "tessera/schedule/csv.h"
#include "tessera/schedule/generate.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;

TEST(ChooseSchedule, AKindInAnyCase) {
  const Schedule chosen = choose_schedule({.word = "ZBV", .pp = 2, .microbatches = 4});
  EXPECT_EQ(chosen, generate({.kind = ScheduleKind::kZBVZeroBubble, .pp = 2, .microbatches = 4}));
  const Schedule three =
      choose_schedule({.word = "interleaved", .pp = 2, .microbatches = 4, .stages_per_rank = 3});
  EXPECT_EQ(three.num_stages(), 6);
}

TEST(ChooseSchedule, ASearchedKindForItsCosts) {
  const Schedule chosen = choose_schedule({.word = "auto",
                                           .pp = 3,
                                           .microbatches = 6,
                                           .costs = {.weight_grad = {0.5}},
                                           .memory_limit = 2});
  EXPECT_EQ(chosen.name(), "auto");
  EXPECT_LE(peak_activations(simulate(chosen, {.weight_grad = {0.5}})), 2);
}

TEST(ChooseSchedule, ATableInAFile) {
  const testkit::TemporaryFolder folder;
  const Schedule made = generate({.kind = ScheduleKind::k1F1B, .pp = 2, .microbatches = 4});
  const std::string path = folder.file("own.CSV", to_csv(made, CsvFormat::kComputeOnly));
  EXPECT_TRUE(names_table(path));
  const Schedule chosen = choose_schedule({.word = path, .pp = 2, .microbatches = 4});
  EXPECT_TRUE(std::ranges::equal(chosen.rows(), made.rows()));
  EXPECT_EQ(chosen.name(), path);
}

TEST(ChooseSchedule, TheTablesSizesAreThoseAskedFor) {
  const testkit::TemporaryFolder folder;
  const std::string path = folder.file("own.csv", "0F0,0B0\r\n1F0,1B0\r\n");
  const auto refusal = [&](ScheduleChoice choice) {
    choice.word = path;
    return message_of<ConfigError>([&] { choose_schedule(choice); });
  };
  EXPECT_EQ(refusal({.pp = 3}),
            path + " is a table of 2 ranks, not 3; use 2 or choose another table");
  EXPECT_NE(refusal({.pp = 2, .microbatches = 5}).find("1 microbatches, not 5"), std::string::npos);
  EXPECT_NE(refusal({.pp = 2, .stages_per_rank = 2}).find("1 stages per rank, not 2"),
            std::string::npos);
}

TEST(ChooseSchedule, RefusalsNameTheRule) {
  const auto refusal = [](const ScheduleChoice& choice) {
    return message_of<ConfigError>([&] { choose_schedule(choice); });
  };
  EXPECT_NE(refusal({.word = "1f1"}).find("did you mean '1f1b'?"), std::string::npos);
  EXPECT_NE(refusal({.pp = 8, .microbatches = 4}).find("raise microbatches to 8"),
            std::string::npos);
  EXPECT_NE(
      refusal({.word = "gpipe", .pp = 2048, .microbatches = 4096}).find("too large to generate"),
      std::string::npos);
  EXPECT_NE(refusal({.word = "auto", .pp = 1024, .microbatches = 1024}).find("too large to search"),
            std::string::npos);
}

TEST(ReadSchedule, WhatIsWrongInAFileIsItsFault) {
  const testkit::TemporaryFolder folder;
  const auto refusal = [](const std::string& path) {
    return message_of<DataError>([&] { read_schedule(path); });
  };
  EXPECT_NE(refusal(folder.path("none.csv")).find("cannot open"), std::string::npos);
  EXPECT_NE(refusal(folder.file("a.csv", "0F0,hello\r\n")).find("row 0, column 1"),
            std::string::npos);
  EXPECT_NE(refusal(folder.file("b.csv", "0F0,0F1,0B0\r\n")).find("0B1 is missing"),
            std::string::npos);
}

TEST(ReadSchedule, AFileThatIsTooLargeIsRefusedByItsSize) {
  const testkit::TemporaryFolder folder;
  const std::string path = folder.file("huge.csv", "");
  std::filesystem::resize_file(path, 300'000'000);  // Sparse: uses no disk space.
  EXPECT_EQ(message_of<DataError>([&] { read_schedule(path); }),
            path + " has 300,000,000 bytes; a schedule table may have at most 268,435,456");
}

TEST(ReadSchedule, SendsArePostedWhereTheyMustBe) {
  const testkit::TemporaryFolder folder;
  const std::string path = folder.file("crossed.csv",
                                       "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\r\n"
                                       "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\r\n");
  EXPECT_EQ(read_schedule(path).sends(), SendMode::kPosted);
}

}  // namespace
}  // namespace tessera
