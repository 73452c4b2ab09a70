#include "tessera/hook/storage_reads.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "tessera/base/error.h"

namespace tessera {
namespace {

TEST(StorageReads, SeesForwardAndBackwardPasses) {
  const at::Tensor a = at::ones({2, 2}).requires_grad_(), b = at::ones({2, 2}).requires_grad_();
  std::vector<size_t> read;
  const StorageReads reads({a, b}, [&](const std::vector<size_t>& indices) {
    read.insert(read.end(), indices.begin(), indices.end());
  });
  const at::Tensor y = at::linear(at::linear(at::ones({1, 2}), a), b);
  ASSERT_FALSE(read.empty());
  EXPECT_EQ(read.front(), 0U);
  EXPECT_EQ(read.back(), 1U);
  read.clear();
  y.sum().backward();
  EXPECT_NE(std::ranges::find(read, 1U), read.end()) << "the gradient of its input reads it";
}

TEST(StorageReads, SeesViewsAndLists) {
  const at::Tensor flat = at::ones({4});
  const at::Tensor view = flat.narrow(0, 1, 2);
  const at::Tensor other = at::ones({1});
  std::vector<size_t> read;
  const StorageReads reads({flat, other}, [&](const auto& indices) { read = indices; });
  (void)at::cat({other, at::ones({1}), view});
  EXPECT_EQ(read, (std::vector<size_t>{1, 0})) << "one operator reads both";
}

TEST(StorageReads, CallbacksFollowTheOrderOfTheArguments) {
  const at::Tensor a = at::ones({2}), b = at::ones({2});
  std::string order;
  const StorageReads reads_a({a}, [&](const auto&) { order += "a"; });
  const StorageReads reads_b({b}, [&](const auto&) { order += "b"; });
  (void)(a + b);
  (void)(b + a);
  EXPECT_EQ(order, "abba");
}

TEST(StorageReads, TheCallbackIsNotSeen) {
  const at::Tensor a = at::ones({2});
  int count = 0;
  const StorageReads reads({a}, [&](const auto&) {
    ++count;
    (void)(a + a);
  });
  (void)a.neg();
  EXPECT_EQ(count, 1);
  const UnwatchedReads unwatched;
  (void)a.neg();
  EXPECT_EQ(count, 1);
}

TEST(StorageReads, AnExceptionReachesTheCaller) {
  const at::Tensor a = at::ones({2});
  const StorageReads reads({a}, [](const auto&) { throw std::runtime_error("no"); });
  EXPECT_THROW((void)a.neg(), std::runtime_error);
}

TEST(StorageReads, EndsWithTheObject) {
  const at::Tensor a = at::ones({2});
  int count = 0;
  {
    const StorageReads reads({a}, [&](const auto&) { ++count; });
    EXPECT_TRUE(StorageReads::watches(a));
    EXPECT_THROW(StorageReads({a}, [](const auto&) {}), ConfigError);
  }
  EXPECT_FALSE(StorageReads::watches(a));
  (void)a.neg();
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace tessera
