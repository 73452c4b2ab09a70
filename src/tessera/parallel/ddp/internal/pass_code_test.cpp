#include "tessera/parallel/ddp/internal/pass_code.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/scalar_tensor.h>
#include <gtest/gtest.h>

namespace tessera::ddp::detail {
namespace {

TEST(PassCode, NearPassesAreDecodedExactly) {
  for (int64_t own = 0; own < 300; ++own) {
    for (int64_t other = own < 63 ? 0 : own - 63; other < own + 63; ++other) {
      for (const bool failed : {false, true}) {
        const PassReport report{other, failed};
        EXPECT_EQ(from_code(to_code(report), own), report) << own << " " << other;
      }
    }
  }
}

TEST(PassCode, IsExactInEveryDtypeOfSums) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble}) {
    for (int64_t code = 0; code < 2 * kPassCodes; ++code) {
      EXPECT_EQ(at::scalar_tensor(code, dtype).item<double>(), static_cast<double>(code)) << dtype;
    }
  }
}

}  // namespace
}  // namespace tessera::ddp::detail
