#include "tessera/launch/worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "tessera/launch/heartbeat_pipe.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A folder that contains TORCHELASTIC_ERROR_FILE.
class Worker : public testing::Test {
 protected:
  Worker() { setenv("TORCHELASTIC_ERROR_FILE", file().c_str(), 1); }
  ~Worker() override {
    unsetenv("TORCHELASTIC_ERROR_FILE");
    unsetenv("TESSERA_HEALTH_FD");
  }
  std::string file() const { return folder_.path("error.json"); }
  nlohmann::json report() const { return nlohmann::json::parse(std::ifstream(file())); }

  const testkit::TemporaryFolder folder_;
};

TEST_F(Worker, WritesTheFormThatTorchrunReads) {
  report_error("tp is odd");
  const nlohmann::json message = report()["message"];
  EXPECT_EQ(message["message"], "tp is odd");
  EXPECT_EQ(message["extraInfo"]["py_callstack"], "tp is odd") << "torchrun shows this";
  const std::string seconds = message["extraInfo"]["timestamp"];
  EXPECT_NEAR(std::stod(seconds), static_cast<double>(time(nullptr)), 60);
  EXPECT_EQ(seconds.find_first_not_of("0123456789"), std::string::npos);
}

TEST_F(Worker, TheFirstErrorStays) {
  report_error("the cause");
  report_error("a consequence");
  EXPECT_EQ(report()["message"]["message"], "the cause");
}

TEST_F(Worker, BytesThatAreNoTextAreReplaced) {
  report_error("a\xff\"b\n");
  EXPECT_EQ(report()["message"]["message"], "a\xef\xbf\xbd\"b\n");
}

TEST_F(Worker, NothingHappensWhereNobodyAsked) {
  setenv("TORCHELASTIC_ERROR_FILE", "/nonexistent/error.json", 1);
  report_error("x");
  setenv("TORCHELASTIC_ERROR_FILE", "", 1);
  report_error("x");
  unsetenv("TORCHELASTIC_ERROR_FILE");
  report_error("x");
  report_healthy();
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(Worker, TellsItsHealthOnceAndClosesThePipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  setenv("TESSERA_HEALTH_FD", std::to_string(ends[1]).c_str(), 1);
  report_healthy();
  report_healthy();
  char bytes[4];
  EXPECT_EQ(read(ends[0], bytes, sizeof(bytes)), 1);
  EXPECT_EQ(read(ends[0], bytes, sizeof(bytes)), 0) << "the pipe is still open";
  EXPECT_EQ(std::getenv("TESSERA_HEALTH_FD"), nullptr);
  close(ends[0]);
}

TEST_F(Worker, SendsHeartbeatsWithItsPlace) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  setenv("TESSERA_HEALTH_FD", std::to_string(ends[1]).c_str(), 1);
  setenv("TESSERA_SILENCE_SECONDS", "1", 1);
  EXPECT_FALSE(has_watching_launcher());
  send_heartbeats([] { return "connecting"; });
  EXPECT_TRUE(has_watching_launcher());
  HeartbeatReader reader;
  const auto read_until = [&](const std::string& place) {
    while (reader.place() != place) {
      char byte = 0;
      ASSERT_EQ(read(ends[0], &byte, 1), 1);
      reader.add({&byte, 1}, Clock::now());
    }
  };
  read_until("connecting");
  EXPECT_FALSE(reader.is_healthy());
  send_heartbeats([] { return "in all_reduce #7\nof group dp"; });
  read_until("in all_reduce #7 of group dp");
  EXPECT_FALSE(reader.is_healthy());
  report_healthy();
  report_healthy();
  send_heartbeats([] { return "outside of operations"; });
  read_until("outside of operations");
  EXPECT_TRUE(reader.is_healthy());
  unsetenv("TESSERA_SILENCE_SECONDS");
  close(ends[0]);  // Ends the thread.
}

TEST_F(Worker, SurvivesALauncherThatIsGone) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  setenv("TESSERA_HEALTH_FD", std::to_string(ends[1]).c_str(), 1);
  report_healthy();
  EXPECT_EQ(fcntl(ends[1], F_GETFD), -1);
}

TEST_F(Worker, DoesNotWriteIntoWhatIsNoPipe) {
  const int other = open(folder_.path("other").c_str(), O_RDWR | O_CREAT, 0600);
  for (const std::string& text :
       {std::to_string(other), std::string("x"), std::string("-1"), std::string("99999999999")}) {
    setenv("TESSERA_HEALTH_FD", text.c_str(), 1);
    report_healthy();
  }
  EXPECT_EQ(fs::file_size(folder_.path("other")), 0U);
  close(other);
}

using UncaughtDeathTest = Worker;

TEST_F(UncaughtDeathTest, IsReportedAndEndsAsBefore) {
  const auto body = [] {
    report_uncaught();
    report_uncaught();
    std::thread([] { throw std::runtime_error("out of cheese"); }).join();
  };
  EXPECT_EXIT(body(), testing::KilledBySignal(SIGABRT), "out of cheese");
  EXPECT_EQ(report()["message"]["message"], "out of cheese");
}

}  // namespace
}  // namespace tessera
