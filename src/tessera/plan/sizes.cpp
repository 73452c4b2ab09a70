#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/checked.h"
#include "tessera/plan/internal/sizes.h"

namespace tessera::plan::detail {

void check_positive(std::string_view name, int64_t size) {
  TSR_CHECK(size > 0, "the size of ", name, " is ", size, ", but must be at least 1");
}

int64_t divide_world(int64_t world, const AxisSizes& factors) {
  TSR_CHECK(world > 0, "world size is ", world, ", but must be at least 1");
  std::vector<int64_t> sizes;
  std::vector<std::string> names;
  std::vector<std::string> shown;
  for (const auto& [name, size] : factors) {
    check_positive(name, size);
    sizes.push_back(size);
    names.push_back(name);
    shown.push_back(concat(name, "=", size));
  }
  const int64_t product = checked_product(sizes, "the product of the parallel sizes");
  std::vector<int64_t> nearest;
  const int64_t below = world / product * product;
  if (below > 0) nearest.push_back(below);
  if (below <= std::numeric_limits<int64_t>::max() - product) nearest.push_back(below + product);
  TSR_CHECK(world % product == 0, "world size ", world, " is not divisible by ", join(names, "·"),
            " = ", product, " (", join(shown, ", "),
            "); nearest world sizes: ", join(nearest, ", "));
  return world / product;
}

void check_minutes(std::string_view name, int64_t minutes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 60'000;  // In milliseconds.
  TSR_CHECK(0 < minutes && minutes <= kMost, name, " ", minutes,
            " is not a valid time-out; choose 1 to ", kMost);
}

}  // namespace tessera::plan::detail
