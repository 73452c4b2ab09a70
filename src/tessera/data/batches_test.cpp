#include "tessera/data/batches.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tessera/data/shuffle.h"
#include "tests/testkit/throws.h"
#include "tests/testkit/token_files.h"

namespace tessera {
namespace {

using testkit::counting_file;
using testkit::message_of;
using testkit::TemporaryFolder;

TokenData counting_data(const TemporaryFolder& folder, int64_t count) {
  return TokenData({.paths = {counting_file(folder, "t", count)}, .kind = TokenKind::kU32});
}

std::vector<int64_t> order(int64_t size, const ShuffleKey& key) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < size; ++i) values.push_back(shuffled(i, size, key));
  return values;
}

// Computed by another implementation of docs/data.md.
TEST(Shuffle, IsWhatTheDocumentDefines) {
  EXPECT_EQ(order(10, {.seed = 1}), (std::vector<int64_t>{0, 4, 2, 9, 1, 6, 7, 5, 3, 8}));
  EXPECT_EQ(order(10, {.seed = (uint64_t{7} << 32) + 1, .source = 2, .epoch = uint64_t{3} << 32}),
            (std::vector<int64_t>{5, 3, 1, 2, 4, 8, 6, 0, 9, 7}));
  EXPECT_EQ(shuffled(123'456'789'012, int64_t{1} << 40, {.seed = 5, .epoch = 9}), 283'947'562'815);
}

TEST(Shuffle, SmallSizes) {
  EXPECT_EQ(order(1, {.seed = 3}), (std::vector<int64_t>{0}));
  EXPECT_THROW(shuffled(1, 1, {}), ConfigError);
  EXPECT_THROW(shuffled(-1, 5, {}), ConfigError);
  EXPECT_THROW(shuffled(0, 0, {}), ConfigError);
}

double chi_square(const std::vector<int64_t>& counts, double expected) {
  double sum = 0;
  for (const int64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
  }
  return sum;
}

// Where the first two indices go over many epochs: every place, and every pair of places, is
// equally likely. One in a thousand fair shuffles would exceed the bounds.
TEST(Shuffle, EpochsAreUniform) {
  constexpr int64_t kSize = 10, kEpochs = 50'000;
  std::vector<int64_t> places(kSize), pairs(kSize * (kSize - 1));
  for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const int64_t first = shuffled(0, kSize, {.seed = 1, .epoch = epoch});
    const int64_t second = shuffled(1, kSize, {.seed = 1, .epoch = epoch});
    ++places[static_cast<size_t>(first)];
    ++pairs[static_cast<size_t>(first * (kSize - 1) + second - (second > first ? 1 : 0))];
  }
  EXPECT_LT(chi_square(places, kEpochs / 10.0), 27.9);  // 9 degrees of freedom.
  EXPECT_LT(chi_square(pairs, kEpochs / 90.0), 135.9);  // 89.
}

// Row i of step k starts at ((k·batch + i)·seq) mod (tokens - seq - 1), as in the reference
// scripts for losses.
TEST(Batches, UnshuffledOrderIsThatOfThePeer) {
  const TemporaryFolder folder;
  const Batches batches(counting_data(folder, 1000), {.batch = 4, .seq = 16, .shuffle = false});
  for (int64_t step = 0; step < 100; ++step) {
    const BatchRows rows = batches.rows(step);
    for (int64_t row = 0; row < 4; ++row) {
      EXPECT_EQ(rows.inputs[static_cast<size_t>(row * 16)],
                ((step * 4 + row) * 16) % (1000 - 16 - 1));
    }
  }
}

TEST(Batches, SeedsDiffer) {
  const TemporaryFolder folder;
  const TokenData data = counting_data(folder, 2000);
  const BatchOptions options{.batch = 8, .seq = 16};
  BatchOptions other = options;
  other.seed = 1;
  EXPECT_EQ(Batches(data, options).rows(3), Batches(data, options).rows(3));
  EXPECT_NE(Batches(data, options).rows(3), Batches(data, other).rows(3));
}

// 3 : 1 whatever the sizes; the small source repeats.
TEST(Batches, WeightsDecideTheShares) {
  const TemporaryFolder folder;
  const TokenData data(
      {.paths = {counting_file(folder, "a", 100), counting_file(folder, "b", 5000, 10'000)},
       .weights = {3, 1},
       .kind = TokenKind::kU32});
  const Batches batches(data, {.batch = 10, .seq = 8});
  int64_t small = 0;
  for (int64_t step = 0; step < 40; ++step) {
    const BatchRows rows = batches.rows(step);
    for (size_t at = 0; at < rows.inputs.size(); at += 8) small += rows.inputs[at] < 100 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(small), 300, 1);
}

TEST(Batches, WhatIsTooShortIsSaid) {
  const TemporaryFolder folder;
  const TokenData data = counting_data(folder, 33);
  EXPECT_NE(message_of<ConfigError>([&] {
              Batches(data, {.batch = 1, .seq = 32});
            }).find("the data has 33 tokens of "),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([&] {
              Batches(data, {.batch = 5, .seq = 8});
            }).find("has 4 samples of seq=8 tokens, fewer than batch=5"),
            std::string::npos);
  EXPECT_EQ(message_of<ConfigError>(
                [&] { Batches(data, {.batch = 2, .seq = 30}, "validation part of the data"); }),
            "the validation part of the data has 1 sample of seq=30 tokens, fewer than batch=2; "
            "use a smaller batch, more data, or another validation share");
  EXPECT_EQ(Batches(data, {.batch = 4, .seq = 8}).batches_per_epoch(), 1);
  EXPECT_THROW(Batches(data, {.batch = 0, .seq = 8}), ConfigError);
  EXPECT_THROW(Batches(data, {.batch = 1, .seq = 0}), ConfigError);
}

TEST(Batches, RowsOutsideTheBatchAreRefused) {
  const TemporaryFolder folder;
  const Batches batches(counting_data(folder, 100), {.batch = 4, .seq = 8});
  EXPECT_THROW(batches.rows(-1), ConfigError);
  EXPECT_THROW(batches.rows(0, 3, 5), ConfigError);
  EXPECT_THROW(batches.rows(0, 3, 2), ConfigError);
  EXPECT_THROW(batches.rows(int64_t{1} << 62), ConfigError);
  EXPECT_EQ(batches.rows(0, 2, 2), (BatchRows{.rows = 0, .seq = 8}));
}

}  // namespace
}  // namespace tessera
