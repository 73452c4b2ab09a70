// Replicas train like one process: optimizers, dtypes, buckets, uneven batches.
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <memory>

#include "tests/ranks/replica.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::GlobalBatch;
using testkit::gradient_difference;
using testkit::Replica;
using testkit::run_ranks;
using testkit::value_difference;

constexpr uint64_t kSteps = 6;

struct Training {
  at::ScalarType dtype = at::kDouble;
  bool adamw = false;
  int64_t bucket_bytes = 1;
  bool uneven = false;

  std::string text() const {
    return concat(c10::toString(dtype), adamw ? " AdamW" : " SGD", ", buckets of ", bucket_bytes,
                  uneven ? ", uneven" : "");
  }
};

std::unique_ptr<torch::optim::Optimizer> optimizer_of(const Training& run, const Replica& replica) {
  namespace optim = torch::optim;
  if (run.adamw) {
    return std::make_unique<optim::AdamW>(replica.tensors(), optim::AdamWOptions(1e-2));
  }
  return std::make_unique<optim::SGD>(replica.tensors(), optim::SGDOptions(0.1).momentum(0.9));
}

/// A replica and its optimizer.
struct Trainer {
  Trainer(const Training& run, uint64_t seed)
      : replica(run.dtype, seed), optimizer(optimizer_of(run, replica)) {}

  double backward(const at::Tensor& rows) {
    optimizer->zero_grad();
    const at::Tensor loss = replica.loss(rows);
    loss.backward();
    return loss.item<double>();
  }

  Replica replica;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

// For comparison, every rank also trains on all rows alone, from rank 0's values.
void train_both(const World& world, const Training& run) {
  SCOPED_TRACE(run.text());
  const bool exact = run.dtype == at::kDouble;
  const double tolerance = exact ? (run.adamw ? 1e-11 : 1e-12) : 1e-6;
  Trainer ours(run, static_cast<uint64_t>(world.rank().value));
  Trainer whole(run, 0);
  const Ddp ddp({ours.replica.parameters}, world.group(), {.bucket_bytes = run.bucket_bytes});
  RANK_EXPECT(value_difference(ours.replica, whole.replica) == 0) << "they start alike";
  for (uint64_t step = 0; step < kSteps; ++step) {
    const GlobalBatch batch(world, run.dtype, run.uneven, step);
    if (run.uneven) ddp.set_share(batch.share);
    (void)ours.backward(batch.mine);
    const double whole_loss = whole.backward(batch.all);
    // Adam divides by the root of the squared gradient: tiny ones are noise in single precision.
    if (exact || !run.adamw) {
      RANK_EXPECT(gradient_difference(ours.replica, whole.replica) < tolerance) << step;
    }
    ours.optimizer->step();
    whole.optimizer->step();
    if (exact || !run.adamw) {
      RANK_EXPECT(value_difference(ours.replica, whole.replica) < tolerance) << step;
    }
    const at::NoGradGuard no_grad;
    const double after = whole.replica.loss(batch.all).item<double>();
    RANK_EXPECT(std::abs(ours.replica.loss(batch.all).item<double>() - after) < 1e-5) << step;
    RANK_EXPECT(after < whole_loss) << "nothing is learnt in step " << step;
  }
}

void train_all(World& world) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const bool adamw : {false, true}) {
      for (const int64_t bucket_bytes : {int64_t{1}, int64_t{300}, int64_t{1} << 30}) {
        for (const bool uneven : {false, true}) {
          train_both(world, {dtype, adamw, bucket_bytes, uneven});
        }
      }
    }
  }
}

TEST(Ddp, TrainsLikeOneProcessOnTwoRanks) {
  run_ranks(2, train_all);
}
TEST(Ddp, TrainsLikeOneProcessOnThreeRanks) {
  run_ranks(3, train_all);
}
TEST(Ddp, TrainsLikeOneProcessOnFourRanks) {
  run_ranks(4, train_all);
}

std::vector<at::Tensor> values_after_run(const World& world, const Training& run) {
  Trainer trainer(run, 0);
  const Ddp ddp({trainer.replica.parameters}, world.group(), {.bucket_bytes = run.bucket_bytes});
  for (uint64_t step = 0; step < kSteps; ++step) {
    (void)trainer.backward(GlobalBatch(world, run.dtype, false, step).mine);
    trainer.optimizer->step();
  }
  return trainer.replica.tensors();
}

TEST(Ddp, TheSameRunTwiceGivesTheSameBits) {
  run_ranks(3, [](World& world) {
    const Training run{.dtype = at::kFloat, .adamw = true, .bucket_bytes = 300};
    const auto first = values_after_run(world, run);
    const auto second = values_after_run(world, run);
    for (size_t i = 0; i < first.size(); ++i) RANK_EXPECT(first[i].equal(second[i])) << i;
  });
}

}  // namespace
}  // namespace tessera
