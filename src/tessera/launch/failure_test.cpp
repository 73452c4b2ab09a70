#include "tessera/launch/failure.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <fstream>

#include "tessera/launch/worker.h"

namespace tessera {
namespace {

std::optional<ErrorReport> report_of(const std::string& text) {
  const std::string path = testing::TempDir() + "failure-test.json";
  std::ofstream(path) << text;
  auto report = read_error_file(path);
  std::remove(path.c_str());
  return report;
}

TEST(Failure, StatusesHaveNames) {
  EXPECT_EQ(status_text(3 << 8), "exit code 3");
  EXPECT_EQ(status_text(SIGSEGV), "SIGSEGV (Segmentation fault)");
  EXPECT_EQ(signal_name(SIGTERM), "SIGTERM");
  EXPECT_EQ(signal_name(63), "signal 63");
}

TEST(Failure, CodesAreThoseOfShells) {
  EXPECT_EQ((Failure{.exit_code = 3}).code(), 3);
  EXPECT_EQ((Failure{.signal = SIGKILL}).code(), 137);
}

TEST(ErrorFile, BothFormsOfTorchrunAreRead) {
  const auto nested = report_of(
      R"({"message": {"message": "boom", "extraInfo": {"py_callstack": "", "timestamp": "17"}}})");
  ASSERT_TRUE(nested);
  EXPECT_EQ(nested->message, "boom");
  EXPECT_EQ(nested->time_us, 17'000'000);
  const auto flat = report_of(R"({"message": "boom", "timestamp": 17})");
  ASSERT_TRUE(flat);
  EXPECT_EQ(flat->message, "boom");
  EXPECT_EQ(flat->time_us, 17'000'000);
}

TEST(ErrorFile, AnythingElseIsNone) {
  for (const char* text : {"", "{", "[]", "7", "{}", R"({"message": 7})",
                           R"({"message": {"message": 7}})", "\xff\xfe"}) {
    EXPECT_FALSE(report_of(text)) << text;
  }
  EXPECT_FALSE(read_error_file("/nonexistent"));
}

TEST(ErrorFile, OddTimesAreNoTimes) {
  for (const char* time : {"\"soon\"", "-5", "1e300", "\"99999999999999999999\"", "null", "{}"}) {
    const auto report = report_of(std::string(R"({"message": "boom", "timestamp": )") + time + "}");
    ASSERT_TRUE(report) << time;
    EXPECT_EQ(report->time_us, 0) << time;
  }
}

TEST(ErrorFile, WhatAWorkerWritesIsRead) {
  const std::string path = testing::TempDir() + "failure-worker.json";
  std::remove(path.c_str());
  setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
  report_error("boom");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  const auto report = read_error_file(path);
  std::remove(path.c_str());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->message, "boom");
  EXPECT_GT(report->time_us, 1'700'000'000'000'000);
}

}  // namespace
}  // namespace tessera
