#include "tessera/run/live_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/base/machine.h"
#include "tessera/base/text.h"
#include "tessera/run/run_folder.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

using testkit::TemporaryFolder;

void append(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

std::string line(int64_t step) {
  return to_json({.step = step, .loss = 2, .mem_bytes = 1}) + "\n";
}

TEST(MetricsReader, ReadsWhatIsNew) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/metrics.jsonl";
  MetricsReader reader(path);
  reader.update();
  EXPECT_TRUE(reader.steps().empty());
  append(path, line(0) + line(1) + line(2).substr(0, 9));
  reader.update();
  EXPECT_EQ(reader.steps().size(), 2U);
  append(path, line(2).substr(9));
  reader.update();
  reader.update();
  ASSERT_EQ(reader.steps().size(), 3U);
  EXPECT_EQ(reader.steps()[2].step, 2);
  drop_metrics_from(path, 1);  // A new file.
  append(path, line(1) + line(2) + line(3));
  reader.update();
  EXPECT_EQ(reader.steps().size(), 4U);
}

TEST(LiveReport, ShowsTheRunAsItIs) {
  const TemporaryFolder folder;
  const std::string metrics = folder.file("metrics.jsonl", line(0));
  LiveReport report(folder.path());
  const auto data = [&] { return nlohmann::json::parse(report.page("/data")->content); };
  EXPECT_EQ(data()["charts"][0]["series"][0]["points"].size(), 1U);
  const std::string version = report.page("/data")->version;
  EXPECT_EQ(report.page("/data")->version, version);
  append(metrics, line(1));
  EXPECT_EQ(data()["charts"][0]["series"][0]["points"].size(), 2U);
  EXPECT_NE(report.page("/data")->version, version);
  EXPECT_NE(report.page("/")->content.find("connect-src 'self'"), std::string::npos);
  EXPECT_EQ(data()["run"][0][1], "not running");
  folder.file("run.lock", concat("process ", getpid(), " on host ", host_name(), "\n"));
  EXPECT_EQ(data()["run"][0][1], concat("running: process ", getpid(), " on host ", host_name()));
  folder.file("run.lock", concat("process 999999999 on host ", host_name(), "\n"));
  EXPECT_EQ(data()["run"][0][1], "not running") << "that of a killed run";
  for (const char* path : {"", "/x", "/../config.toml", "/data?", "//", "/data/", "/%2e%2e/"}) {
    EXPECT_FALSE(report.page(path)) << path;
  }
}

TEST(LiveReport, NeedsARun) {
  const TemporaryFolder folder;
  EXPECT_THROW(LiveReport(folder.path()), DataError);
}

}  // namespace
}  // namespace tessera
