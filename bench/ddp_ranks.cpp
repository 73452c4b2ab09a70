// One rank of our side in the comparison of peers/torch_ddp.py, which starts all ranks:
//
//   ddp_ranks step FOLDER
//
// Rank 0 prints its figures as one line of JSON. What is timed here is timed there, step by step.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rank_timing.h"
#include "tessera/base/text.h"
#include "tessera/parallel/ddp/ddp.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLayers = 8;
constexpr int kWarmUps = 5;
constexpr double kRate = 1e-3;

struct Size {
  const char* name;
  int64_t width;
  int64_t rows;
  int steps;
};
constexpr Size kSizes[] = {{"small", 256, 32, 200}, {"large", 1024, 64, 30}};

Parameters make_parameters(int64_t width) {
  Parameters parameters;
  const double deviation = 1 / std::sqrt(static_cast<double>(width));
  for (int64_t i = 0; i < kLayers; ++i) {
    parameters.push_back({concat(i, ".weight"), at::randn({width, width}).mul(deviation)});
    parameters.push_back({concat(i, ".bias"), at::randn({width}).mul(deviation)});
  }
  for (Parameter& parameter : parameters) parameter.tensor.requires_grad_();
  return parameters;
}

at::Tensor loss_of(const Parameters& parameters, at::Tensor x) {
  for (size_t i = 0; i < parameters.size(); i += 2) {
    x = at::linear(x, parameters[i].tensor, parameters[i + 1].tensor).relu();
  }
  return x.square().mean();
}

// Gradient descent with all parameters in one call, as the peer's optimizer does it.
void update(const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  std::vector<at::Tensor> gradients;
  for (const Parameter& parameter : parameters) {
    values.push_back(parameter.tensor);
    gradients.push_back(parameter.tensor.grad());
  }
  at::_foreach_add_(values, gradients, -kRate);
  for (const at::Tensor& value : values) value.mutable_grad().reset();
}

// CPU time of all threads of this process.
double cpu_now() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Times {
  double median = 0;  // Wall-clock time.
  double cpu = 0;     // On average.
};

Times time_steps(const World& world, const Size& size) {
  const Parameters parameters = make_parameters(size.width);
  const Ddp ddp({parameters}, world.group());
  const at::Tensor x = at::randn({size.rows, size.width});
  std::vector<double> times;
  double cpu_start = 0;
  for (int step = -kWarmUps; step < size.steps; ++step) {
    if (step == 0) cpu_start = cpu_now();
    const double start = bench::now();
    loss_of(parameters, x).backward();
    update(parameters);
    if (step >= 0) times.push_back(bench::now() - start);
  }
  const double cpu = (cpu_now() - cpu_start) / size.steps;
  std::ranges::nth_element(times, times.begin() + size.steps / 2);
  return {times[times.size() / 2], cpu};
}

// The slowest rank counts.
Json measure(const LaunchInfo& launch) {
  World world = World::connect(launch, {.backend = Backend::kGloo});
  Json figures;
  for (const Size& size : kSizes) {
    const Times times = time_steps(world, size);
    figures[concat(size.name, "_step_ms")] = bench::slowest_rank(times.median, world) * 1e3;
    figures[concat(size.name, "_step_cpu_ms")] = bench::slowest_rank(times.cpu, world) * 1e3;
  }
  world.close();
  return figures;
}

}  // namespace
}  // namespace tessera

int main(int count, char** arguments) {
  return tessera::bench::rank_main({arguments, static_cast<size_t>(count)},
                                   {{"step", tessera::measure}});
}
