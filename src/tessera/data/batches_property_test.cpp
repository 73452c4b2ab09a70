// Properties of the sample order for random sizes, shares and splits.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tessera/data/batches.h"
#include "tessera/data/mixture.h"
#include "tessera/data/shuffle.h"
#include "tests/testkit/token_files.h"

namespace tessera {
namespace {

using testkit::counting_file;
using testkit::TemporaryFolder;

ShuffleKey any_key() {
  return {.seed = *rc::gen::arbitrary<uint64_t>(),
          .source = *rc::gen::inRange<uint32_t>(0, 100),
          .epoch = *rc::gen::arbitrary<uint64_t>()};
}

RC_GTEST_PROP(ShuffleProperty, IsABijection, ()) {
  const auto size = *rc::gen::inRange<int64_t>(1, 2000);
  const ShuffleKey key = any_key();
  std::vector<bool> seen(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    const int64_t to = shuffled(i, size, key);
    RC_ASSERT(to >= 0 && to < size);
    RC_ASSERT(!seen[static_cast<size_t>(to)]);
    seen[static_cast<size_t>(to)] = true;
  }
}

RC_GTEST_PROP(ShuffleProperty, LargeSizesNeedNoTable, ()) {
  const auto size = *rc::gen::inRange<int64_t>(int64_t{1} << 30, int64_t{1} << 62);
  const auto first = *rc::gen::inRange<int64_t>(0, size - 100);
  const ShuffleKey key = any_key();
  std::set<int64_t> seen;
  for (int64_t i = first; i < first + 100; ++i) {
    const int64_t to = shuffled(i, size, key);
    RC_ASSERT(to >= 0 && to < size);
    RC_ASSERT(seen.insert(to).second);
  }
}

std::vector<double> any_shares() {
  std::vector<double> shares;
  const int count = *rc::gen::inRange(1, 7);
  for (int i = 0; i < count; ++i) shares.push_back(*rc::gen::inRange(1, 1000));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

// Each source counts its samples without gaps and has its share at every point.
RC_GTEST_PROP(MixtureProperty, SharesAreMetAtEveryMoment, ()) {
  const std::vector<double> shares = any_shares();
  const Mixture mixture(shares, *rc::gen::arbitrary<uint64_t>());
  std::vector<int64_t> counts(shares.size());
  for (int64_t sample = 0; sample < 2000; ++sample) {
    const Mixture::Pick pick = mixture.at(sample);
    RC_ASSERT(pick.source < shares.size());
    RC_ASSERT(pick.index == counts[pick.source]++);
    for (size_t i = 0; i < shares.size(); ++i) {
      const double expected = shares[i] * static_cast<double>(sample + 1);
      RC_ASSERT(std::abs(static_cast<double>(counts[i]) - expected) <=
                static_cast<double>(shares.size()));
    }
  }
}

// Sample numbers whose product with the share exceeds 64 bits.
RC_GTEST_PROP(MixtureProperty, LargeNumbersKeepTheirShares, ()) {
  const std::vector<double> shares = any_shares();
  const Mixture mixture(shares, *rc::gen::arbitrary<uint64_t>());
  const auto sample = *rc::gen::inRange<int64_t>(0, int64_t{1} << 55);
  const Mixture::Pick pick = mixture.at(sample);
  const double share = static_cast<double>(pick.index) / static_cast<double>(sample + 1);
  RC_ASSERT(std::abs(share - shares[pick.source]) <=
            1e-8 + static_cast<double>(shares.size()) / static_cast<double>(sample + 1));
}

struct Input {
  TemporaryFolder folder;
  BatchOptions options;
  std::vector<std::string> paths;
};

// One to three sources of numbers that do not overlap.
void fill(Input& input) {
  input.options = {.batch = *rc::gen::inRange<int64_t>(1, 9),
                   .seq = *rc::gen::inRange<int64_t>(1, 20),
                   .shuffle = *rc::gen::arbitrary<bool>(),
                   .seed = *rc::gen::arbitrary<uint64_t>()};
  const int count = *rc::gen::inRange(1, 4);
  for (int i = 0; i < count; ++i) {
    const auto size = *rc::gen::inRange<int64_t>(200, 400);
    input.paths.push_back(counting_file(input.folder, std::to_string(i), size, i * 1000));
  }
}

Batches batches_of(const Input& input) {
  return {TokenData({.paths = input.paths, .kind = TokenKind::kU32}), input.options};
}

RC_GTEST_PROP(BatchesProperty, AnySplitOfTheRowsIsTheWholeBatch, ()) {
  Input input;
  fill(input);
  const Batches batches = batches_of(input);
  const auto step = *rc::gen::inRange<int64_t>(0, 1000);
  BatchRows joined{.rows = 0, .seq = input.options.seq};
  while (joined.rows < input.options.batch) {
    const auto end = *rc::gen::inRange<int64_t>(joined.rows + 1, input.options.batch + 1);
    const BatchRows part = batches_of(input).rows(step, joined.rows, end);
    joined.rows = end;
    joined.inputs.insert(joined.inputs.end(), part.inputs.begin(), part.inputs.end());
    joined.targets.insert(joined.targets.end(), part.targets.begin(), part.targets.end());
  }
  RC_ASSERT(joined == batches.rows(step));
}

// Each token is its own position.
RC_GTEST_PROP(BatchesProperty, RowsAreConsecutiveAndTargetsOneLater, ()) {
  Input input;
  fill(input);
  const BatchRows rows = batches_of(input).rows(*rc::gen::inRange<int64_t>(0, 1000));
  RC_ASSERT(std::ssize(rows.inputs) == rows.rows * rows.seq);
  for (size_t i = 0; i < rows.inputs.size(); ++i) {
    RC_ASSERT(rows.targets[i] == rows.inputs[i] + 1);
    if (i % static_cast<size_t>(rows.seq) == 0) continue;
    RC_ASSERT(rows.inputs[i] == rows.inputs[i - 1] + 1);
  }
}

std::vector<int64_t> starts_of(const Batches& batches, int64_t epoch) {
  std::vector<int64_t> starts;
  const int64_t steps = batches.batches_per_epoch();
  for (int64_t step = epoch * steps; step < (epoch + 1) * steps; ++step) {
    starts.push_back(batches.rows(step).inputs[0]);
  }
  return starts;
}

RC_GTEST_PROP(BatchesProperty, AnEpochHasEverySampleOnceInAnotherOrder, ()) {
  const TemporaryFolder folder;
  const auto seq = *rc::gen::inRange<int64_t>(1, 9);
  const std::string path =
      counting_file(folder, "t", *rc::gen::inRange<int64_t>(30 * seq, 90 * seq));
  const Batches batches(TokenData({.paths = {path}, .kind = TokenKind::kU32}),
                        {.batch = 1, .seq = seq, .seed = *rc::gen::arbitrary<uint64_t>()});
  const std::vector<int64_t> first = starts_of(batches, 0);
  const std::vector<int64_t> second = starts_of(batches, 1);
  RC_ASSERT(first != second);
  const std::set<int64_t> distinct(first.begin(), first.end());
  RC_ASSERT(std::ssize(distinct) == batches.samples());
  RC_ASSERT(distinct == std::set<int64_t>(second.begin(), second.end()));
  RC_ASSERT(std::ranges::all_of(distinct, [&](int64_t start) { return start % seq == 0; }));
}

RC_GTEST_PROP(BatchesProperty, ValidationIsNeverTrainedOn, ()) {
  const TemporaryFolder folder;
  const auto size = *rc::gen::inRange<int64_t>(200, 2000);
  const TokenData data({.paths = {counting_file(folder, "t", size)}, .kind = TokenKind::kU32});
  const auto percent = *rc::gen::inRange(10, 90);
  const auto [train, validation] = data.split(percent / 100.0);
  RC_ASSERT(train.size() + validation.size() == size);
  const BatchOptions options{.batch = 1, .seq = 8, .shuffle = *rc::gen::arbitrary<bool>()};
  const int64_t border = train.size();
  for (int64_t step = 0; step < 300; ++step) {
    RC_ASSERT(Batches(train, options).rows(step).targets.back() < border);
    RC_ASSERT(Batches(validation, options).rows(step).inputs.front() >= border);
  }
}

}  // namespace
}  // namespace tessera
