#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/config/layers.h"
#include "tests/testkit/contains.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

using testkit::contains;
using testkit::message_of;

TrainConfig run_of(const ParallelSection& parallel, int64_t accumulate = 1) {
  TrainConfig config = resolve({});
  config.parallel = parallel;
  config.optim.accumulate = accumulate;
  config.data.batch = 24;
  config.run.record_every = 0;
  return config;
}

TEST(FewerReplicas, KeepTheBatchAndTheRowsPerSlice) {
  const TrainConfig half = with_fewer_replicas(run_of({.nproc = 8, .dp = 4, .tp = 2}, 3), 4);
  EXPECT_EQ(half.parallel, (ParallelSection{.nproc = 4, .dp = 2, .tp = 2}));
  EXPECT_EQ(half.optim.accumulate, 6);
  EXPECT_EQ(half.data.batch, 24);
  EXPECT_EQ(with_fewer_replicas(run_of({.nproc = 3, .dp = 3}), 2).optim.accumulate, 2)
      << "slices are not larger than before";
  const TrainConfig pipeline =
      with_fewer_replicas(run_of({.nproc = 8, .dp = 4, .pp = 2, .microbatches = 2}), 2);
  EXPECT_EQ(pipeline.parallel.microbatches, 8);
  EXPECT_EQ(pipeline.optim.accumulate, 1);
}

TEST(FewerReplicas, KeepWholeGroupsOfShards) {
  const TrainConfig full = run_of({.nproc = 8, .dp = 8, .dp_type = "hsdp", .dp_replicate = 4});
  EXPECT_EQ(with_fewer_replicas(full, 4).parallel.dp_replicate, 2);
  EXPECT_EQ(with_fewer_replicas(full, 2).parallel.dp_type, "fsdp");
  EXPECT_TRUE(contains(message_of<ConfigError>([&] { with_fewer_replicas(full, 3); }),
                       "whole groups of shards"));
  EXPECT_TRUE(contains(message_of<ConfigError>(
                           [&] { with_fewer_replicas(run_of({.nproc = 4, .dp = 2, .tp = 2}), 3); }),
                       "3 of 4 ranks left, which is not a multiple of tp·cp·pp = 2"));
}

TEST(FewerReplicas, ASingleOneShardsNothing) {
  const TrainConfig one =
      with_fewer_replicas(run_of({.nproc = 4, .dp = 4, .dp_type = "fsdp", .reduce = "each"}), 1);
  EXPECT_EQ(one.parallel, ParallelSection{});
  EXPECT_EQ(one.optim.accumulate, 4);
}

}  // namespace
}  // namespace tessera
