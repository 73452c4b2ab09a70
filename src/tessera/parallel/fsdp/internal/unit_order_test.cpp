#include "tessera/parallel/fsdp/internal/unit_order.h"

#include <gtest/gtest.h>

namespace tessera::fsdp::detail {
namespace {

constexpr std::nullopt_t kNone = std::nullopt;

TEST(UnitOrder, TheFirstStepPredictsTheNext) {
  UnitOrder order;
  for (const size_t unit : {2U, 0U, 1U}) EXPECT_EQ(order.forward(unit, true), kNone);
  EXPECT_EQ(order.backward(1), 0U);
  EXPECT_EQ(order.backward(0), 2U);
  EXPECT_EQ(order.backward(2), kNone);
  order.end_step();
  EXPECT_EQ(order.forward(2, true), 0U);
  EXPECT_EQ(order.forward(0, true), 1U);
  EXPECT_EQ(order.forward(1, true), kNone);
}

TEST(UnitOrder, AUnitUsedTwice) {
  UnitOrder order;
  for (const size_t unit : {0U, 1U, 0U, 2U}) (void)order.forward(unit, true);
  EXPECT_EQ(order.backward(2), 0U);
  EXPECT_EQ(order.backward(0), 1U);
  EXPECT_EQ(order.backward(1), 0U);
  order.end_step();
  EXPECT_EQ(order.forward(0, true), 1U);
  EXPECT_EQ(order.forward(1, true), 0U);
  EXPECT_EQ(order.forward(0, true), 2U);
}

TEST(UnitOrder, ForwardPassesWithoutBackward) {
  UnitOrder order;
  for (const size_t unit : {0U, 1U}) (void)order.forward(unit, true);
  order.end_step();
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(order.forward(0, false), 1U);
    EXPECT_EQ(order.forward(1, false), kNone);
  }
  EXPECT_EQ(order.forward(0, true), 1U);
}

TEST(UnitOrder, AnotherOrderThanBefore) {
  UnitOrder order;
  for (const size_t unit : {0U, 1U, 2U}) (void)order.forward(unit, true);
  order.end_step();
  EXPECT_EQ(order.forward(1, true), 2U);
  EXPECT_EQ(order.forward(3, true), kNone) << "never seen";
  EXPECT_EQ(order.forward(0, true), 1U);
  EXPECT_EQ(order.backward(5), kNone) << "not in this step";
}

}  // namespace
}  // namespace tessera::fsdp::detail
