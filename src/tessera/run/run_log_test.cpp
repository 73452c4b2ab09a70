#include "tessera/run/run_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tessera/base/read_file.h"
#include "tests/testkit/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testkit::TemporaryFolder;

StepMetrics step(int64_t number) {
  return {.step = number,
          .loss = 2.5,
          .grad_norm = std::numeric_limits<double>::infinity(),
          .lr = 1e-3,
          .ms = 12,
          .tokens_per_s = 100,
          .mem_bytes = 4096};
}

size_t event_files(const RunFolder& folder) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder.path(RunFolder::kEvents))) {
    count += is_event_file(entry.path().filename().string()) ? 1 : 0;
  }
  return count;
}

TEST(RunLog, WritesWhatIsAskedFor) {
  const TemporaryFolder root;
  const RunFolder folder(root.path() + "/run", FormerRun::kRefuse);
  folder.begin();
  RunLog(folder, {}, 0).append(step(0));
  EXPECT_TRUE(fs::exists(folder.path(RunFolder::kMetrics)));
  EXPECT_FALSE(fs::exists(folder.path(RunFolder::kCsv)));
  EXPECT_FALSE(fs::exists(folder.path(RunFolder::kEvents)));
}

TEST(RunLog, AResumedRunHasEachRowOnce) {
  const TemporaryFolder root;
  const RunFolder folder(root.path() + "/run", FormerRun::kRefuse);
  folder.begin();
  const RunSection run{.csv = true, .tensorboard = true};
  {
    RunLog log(folder, run, 0);
    for (int64_t i = 0; i < 4; ++i) log.append(step(i));
  }
  folder.resume(2);
  StepMetrics other = step(2);
  other.validation_loss = 0.1;
  other.skipped = true;
  RunLog(folder, run, 2).append(other);
  EXPECT_EQ(read_file(folder.path(RunFolder::kCsv), 10'000),
            "step,loss,grad_norm,lr,ms,tokens_per_s,mem_bytes,validation_loss,loss_scale,aux_loss,"
            "z_loss,largest_load,skipped,rolled_back_to\n"
            "0,2.5,nan,0.001,12,100,4096,,,,,,,\n"
            "1,2.5,nan,0.001,12,100,4096,,,,,,,\n"
            "2,2.5,inf,0.001,12,100,4096,0.1,,,,,1,\n")
      << "metrics.jsonl has null for what is not finite";
  EXPECT_EQ(event_files(folder), 2U);
  folder.begin();
  EXPECT_FALSE(fs::exists(folder.path(RunFolder::kCsv)));
  EXPECT_FALSE(fs::exists(folder.path(RunFolder::kEvents)));
}

}  // namespace
}  // namespace tessera
