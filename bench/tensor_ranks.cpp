// One rank of a comparison of tensor parallelism's synchronous and asynchronous modes, which
// bench/slow_link starts:
//
//   tensor_ranks modes FOLDER
//
// Rank 0 prints its figures as one line of JSON.
#include <ATen/core/Tensor.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/base/text.h"
#include "tessera/parallel/tensor/column_linear.h"
#include "tessera/parallel/tensor/row_linear.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kPositions = 1024;
constexpr int64_t kWidth = 1024;
constexpr int64_t kInner = 4096;
constexpr int kWarmUps = 2;
constexpr int kSteps = 9;

// A column-parallel layer and a row-parallel one, as in a feed-forward network.
struct Layers {
  explicit Layers(int64_t size)
      : x(at::randn({1, kPositions / size, kWidth}).requires_grad_()),
        inner(at::randn({1, kPositions, kInner / size})),
        rows(at::randn({kInner / size, kWidth}).div_(32).requires_grad_()),
        columns(at::randn({kWidth, kInner / size}).div_(32).requires_grad_()) {}

  at::Tensor x, inner, rows, columns;
};

double time_of(const World& world, const std::function<void()>& body) {
  barrier(world.group());
  const double start = bench::now();
  body();
  return bench::slowest_rank(bench::now() - start, world);
}

using Bodies = std::vector<std::pair<std::string, std::function<void(const Pass&)>>>;

Bodies bodies(const Layers& layers) {
  const auto without_gradients = [](const auto& body) {
    return [body](const Pass& pass) {
      const at::NoGradGuard no_grad;
      body(pass);
    };
  };
  return {
      {"column_forward", without_gradients([&layers](const Pass& pass) {
         column_linear(layers.x, layers.rows, {}, pass);
       })},
      {"row_forward", without_gradients([&layers](const Pass& pass) {
         row_linear(layers.inner, layers.columns, {}, pass);
       })},
      {"both_and_backward",
       [&layers](const Pass& pass) {
         const at::Tensor y = column_linear(layers.x, layers.rows, {}, pass);
         row_linear(y, layers.columns, {}, pass).sum().backward();
       }},
  };
}

// Both modes in turns; the median of each.
Json measure(const LaunchInfo& launch) {
  World world = World::connect(launch, {.backend = Backend::kGloo});
  const Layers layers(world.size());
  const TensorParallel plain{world.group()};
  const TensorParallel async{world.group(), true, true};
  Json figures;
  for (const auto& [name, body] : bodies(layers)) {
    std::map<bool, std::vector<double>> times;
    for (int step = -kWarmUps; step < kSteps; ++step) {
      for (const TensorParallel* tensor : {&plain, &async}) {
        const double seconds = time_of(world, [&] { body({.tensor = tensor}); });
        if (step >= 0) times[tensor->async].push_back(seconds);
      }
    }
    for (auto& [is_async, all] : times) {
      std::ranges::nth_element(all, all.begin() + kSteps / 2);
      figures[concat(name, is_async ? "_async_ms" : "_ms")] = all[kSteps / 2] * 1e3;
    }
  }
  world.close();
  return figures;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  return tessera::bench::rank_main({arguments, static_cast<size_t>(count)},
                                   {{"modes", tessera::measure}});
}
