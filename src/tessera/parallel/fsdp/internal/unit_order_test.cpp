#include "tessera/parallel/fsdp/internal/unit_order.h"

#include <gtest/gtest.h>

namespace tessera::fsdp::detail {
namespace {

constexpr std::nullopt_t kNone = std::nullopt;

UnitOrder after_a_step(const std::vector<size_t>& units) {
  UnitOrder order;
  for (const size_t unit : units) EXPECT_EQ(order.next(unit), kNone) << "nothing is known yet";
  order.end_step();
  return order;
}

TEST(UnitOrder, TheFirstStepPredictsTheNext) {
  UnitOrder order = after_a_step({2, 0, 1});
  EXPECT_EQ(order.next(2), 0U);
  EXPECT_EQ(order.next(0), 1U);
  EXPECT_EQ(order.next(1), kNone);
}

TEST(UnitOrder, AUnitUsedTwice) {
  UnitOrder order = after_a_step({0, 1, 0, 2});
  EXPECT_EQ(order.next(0), 1U);
  EXPECT_EQ(order.next(1), 0U);
  EXPECT_EQ(order.next(0), 2U);
}

TEST(UnitOrder, SeveralPasses) {
  for (const bool records : {false, true}) {
    UnitOrder order = after_a_step({0, 1});
    for (int pass = 0; pass < 3; ++pass) {
      EXPECT_EQ(order.next(0, records), 1U);
      EXPECT_EQ(order.next(1, records), kNone);
    }
  }
}

TEST(UnitOrder, AnotherOrderThanBefore) {
  UnitOrder order = after_a_step({0, 1, 2});
  EXPECT_EQ(order.next(1), 2U);
  EXPECT_EQ(order.next(3), kNone) << "never seen";
  EXPECT_EQ(order.next(0), 1U);
}

}  // namespace
}  // namespace tessera::fsdp::detail
