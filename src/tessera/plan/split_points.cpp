#include "tessera/plan/split_points.h"

#include "tessera/base/check.h"

namespace tessera {

std::vector<int64_t> even_split_points(int64_t num_layers, int64_t num_stages) {
  TSR_CHECK(num_stages > 0, "the number of stages is ", num_stages, ", but must be at least 1");
  TSR_CHECK(num_stages <= num_layers, num_layers, " layers are too few for ", num_stages,
            " stages of at least 1 layer; choose fewer stages, or give split points");
  const int64_t even = num_layers / num_stages;
  int64_t rest = num_layers % num_stages;
  std::vector<int64_t> points;
  for (int64_t stage = 1, begin = even; stage < num_stages; ++stage) {
    points.push_back(begin);
    begin += even + (rest > 0 ? 1 : 0);
    --rest;
  }
  return points;
}

void check_split_points(std::span<const int64_t> points, int64_t num_layers) {
  int64_t least = 0;
  for (const int64_t point : points) {
    TSR_CHECK(least <= point && point <= num_layers, "the split points ", join(points, ", "),
              " do not increase from 0 to the ", num_layers, " layers: ", point,
              " is out of order; give the first layer of each stage in order");
    least = point + 1;
  }
}

}  // namespace tessera
