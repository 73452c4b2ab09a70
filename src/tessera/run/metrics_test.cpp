#include "tessera/run/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "tessera/base/error.h"
#include "tests/testkit/temporary_folder.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::message_of;
using testkit::TemporaryFolder;

const StepMetrics kStep{.step = 3,
                        .loss = 5.25,
                        .grad_norm = 0.1,
                        .lr = 1e-3,
                        .ms = 12.5,
                        .tokens_per_s = 81920,
                        .mem_bytes = 4096};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Metrics, AreOneObjectALine) {
  EXPECT_EQ(to_json(kStep),
            R"({"step":3,"loss":5.25,"grad_norm":0.1,"lr":0.001,"ms":12.5,"tokens_per_s":81920.0,)"
            R"("mem_bytes":4096})");
}

TEST(Metrics, KeepEveryBitOfANumber) {
  StepMetrics step = kStep;
  step.loss = 1.0 / 3;
  step.validation_loss = std::nextafter(2.0, 3.0);
  step.sent_bytes = {{"tp", int64_t{1} << 40}, {"norm", 8}};
  step.held_bytes = {{"parameters", int64_t{1} << 40}, {"gradients", 1}};
  EXPECT_EQ(parse_step_metrics(to_json(step), "here"), step);
}

TEST(Metrics, SayThatAStepWasSkipped) {
  StepMetrics step = kStep;
  step.loss_scale = 65536;
  step.skipped = true;
  EXPECT_NE(to_json(step).find(R"("loss_scale":65536.0,"skipped":true})"), std::string::npos);
  EXPECT_EQ(parse_step_metrics(to_json(step), "here"), step);
}

TEST(Metrics, OfExperts) {
  StepMetrics step = kStep;
  step.aux_loss = 2.5;
  step.z_loss = 0.75;
  step.expert_load = {0.5, 1.25, 1.25};
  step.dropped_share = 0.125;
  EXPECT_NE(
      to_json(step).find(
          R"("aux_loss":2.5,"z_loss":0.75,"largest_load":1.25,"expert_load":[0.5,1.25,1.25],"dropped_share":0.125})"),
      std::string::npos);
  EXPECT_EQ(parse_step_metrics(to_json(step), "here"), step);
}

TEST(Metrics, OfARunThatDivergedAreNull) {
  StepMetrics step = kStep;
  step.loss = std::numeric_limits<double>::infinity();
  EXPECT_NE(to_json(step).find(R"("loss":null)"), std::string::npos);
  EXPECT_TRUE(std::isnan(parse_step_metrics(to_json(step), "here").loss));
}

TEST(Metrics, AreInTheFileAfterEachStep) {
  const TemporaryFolder folder;
  MetricsFile file(folder.path("metrics.jsonl"));
  file.append(kStep);
  EXPECT_EQ(text_of(folder.path("metrics.jsonl")), to_json(kStep) + "\n");
  StepMetrics next = kStep;
  next.step = 4;
  file.append(next);
  EXPECT_EQ(read_metrics(folder.path("metrics.jsonl")), (std::vector{kStep, next}));
}

TEST(Metrics, ALineThatWasNotFinishedIsPassedOver) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m", to_json(kStep) + "\n" + R"({"step":4,"lo)");
  EXPECT_EQ(read_metrics(path), std::vector{kStep});
  EXPECT_TRUE(read_metrics(folder.file("none", "")).empty());
}

TEST(Metrics, ALineThatWasNotFinishedIsRemovedBeforeTheNext) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m", to_json(kStep) + "\n" + R"({"step":4,"lo)");
  MetricsFile(path).append(kStep);
  EXPECT_EQ(read_metrics(path), (std::vector{kStep, kStep}));
}

TEST(Metrics, ABrokenLineIsNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.file("m", to_json(kStep) + "\nnonsense\n");
  const std::string message = message_of<DataError>([&] { read_metrics(path); });
  EXPECT_NE(message.find(path + ", line 2"), std::string::npos) << message;
  EXPECT_THROW(parse_step_metrics(R"({"step":1})", "here"), DataError);
  EXPECT_THROW(parse_step_metrics("[]", "here"), DataError);
}

TEST(Metrics, AFullDiskIsNamed) {
  MetricsFile file("/dev/full");
  EXPECT_EQ(message_of<DataError>([&] { file.append(kStep); }),
            "cannot write /dev/full: No space left on device");
}

}  // namespace
}  // namespace tessera
