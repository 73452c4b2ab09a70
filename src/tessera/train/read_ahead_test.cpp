#include "tessera/train/read_ahead.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// The number of the step, and of the first row.
class Numbers final : public BatchSource {
 public:
  int64_t batch() const override { return 4; }
  BatchTensors rows(int64_t step, Span rows) const override {
    if (step == bad_step) throw DataError("step 5 cannot be read");
    const bool is_ahead = std::this_thread::get_id() != asking;
    readers.fetch_add(is_ahead ? 1 : 0);
    if (now_reading.fetch_add(1) > 0) overlaps.fetch_add(1);
    if (is_ahead) std::this_thread::sleep_for(time_ahead);
    now_reading.fetch_sub(1);
    return {.inputs = at::full({rows.size()}, step, at::kLong),
            .targets = at::full({rows.size()}, rows.begin, at::kLong)};
  }

  int64_t bad_step = -1;
  const std::thread::id asking = std::this_thread::get_id();
  std::chrono::milliseconds time_ahead{0};   // That another thread takes for a step.
  mutable std::atomic<int64_t> readers = 0;  // Steps read by other threads.
  mutable std::atomic<int64_t> now_reading = 0;
  mutable std::atomic<int64_t> overlaps = 0;  // Reads that began before another one ended.
};

int64_t step_in(const BatchTensors& tensors) {
  return tensors.inputs[0].item<int64_t>();
}

TEST(ReadAhead, TheNextStepIsReadByAnotherThread) {
  const Numbers source;
  {
    const ReadAhead batches(source);
    EXPECT_EQ(batches.batch(), 4);
    for (int64_t step = 3; step < 8; ++step) EXPECT_EQ(step_in(batches.rows(step, {0, 4})), step);
  }
  EXPECT_EQ(source.readers, 5) << "steps 4 to 8; 3 was asked for at once";
}

TEST(ReadAhead, AnotherStepOrOtherRowsAreReadAtOnce) {
  const Numbers source;
  const ReadAhead batches(source);
  (void)batches.rows(7, {0, 4});
  EXPECT_EQ(step_in(batches.rows(2, {0, 4})), 2) << "after a rollback";
  EXPECT_EQ(step_in(batches.rows(2, {0, 4})), 2) << "a repeated step";
  const BatchTensors others = batches.rows(3, {2, 4});
  EXPECT_EQ(step_in(others), 3);
  EXPECT_EQ(others.targets.sizes(), at::IntArrayRef{2});
  EXPECT_EQ(others.targets[0].item<int64_t>(), 2);
}

TEST(ReadAhead, OneThreadAtATimeReads) {
  Numbers source;
  source.time_ahead = std::chrono::milliseconds(20);
  {
    const ReadAhead batches(source);
    for (const int64_t step : {0, 1, 1, 5, 6}) (void)batches.rows(step, {0, 4});
  }
  EXPECT_EQ(source.overlaps, 0);
}

TEST(ReadAhead, AnErrorIsThatOfItsStep) {
  Numbers source;
  source.bad_step = 5;
  const ReadAhead batches(source);
  EXPECT_EQ(step_in(batches.rows(4, {0, 4})), 4);
  EXPECT_THROW((void)batches.rows(5, {0, 4}), DataError);
  EXPECT_EQ(step_in(batches.rows(6, {0, 4})), 6) << "and readable again";
}

}  // namespace
}  // namespace tessera
