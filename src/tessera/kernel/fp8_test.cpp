#include "tessera/kernel/fp8.h"

#include <gtest/gtest.h>

#include "tessera/base/error.h"
#include "tests/testkit/throws.h"

namespace tessera {
namespace {

TEST(Fp8Kernels, NeedAGpuWithFloat8) {
  for (const GpuCapability capability : {GpuCapability{7, 5}, {8, 0}, {8, 6}, {8, 7}}) {
    EXPECT_THROW(check_fp8(capability), ConfigError);
  }
  for (const GpuCapability capability : {GpuCapability{8, 9}, {9, 0}, {10, 0}, {12, 1}}) {
    EXPECT_NO_THROW(check_fp8(capability));
  }
}

TEST(Fp8Kernels, ARefusalNamesTheCapabilityTheRuleAndTheFix) {
  EXPECT_EQ(testkit::message_of<ConfigError>([] { check_fp8({.major = 8, .minor = 0}); }),
            "products in float8 (--fp8) need a GPU of compute capability 8.9 or newer, but this "
            "has 8.0; leave --fp8 out, or use a newer GPU");
}

TEST(Fp8Kernels, ACpuNeedsNothing) {
  EXPECT_NO_THROW(check_fp8(at::kCPU));
}

}  // namespace
}  // namespace tessera
