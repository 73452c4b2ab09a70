// An ordinary LibTorch program: a module, a dataset, a loader and an optimizer. The five lines
// marked "ddp" make it train on all ranks:
//
//   tessera run --nproc 2 -- ddp
#include <torch/torch.h>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/parallel/ddp/ddp.h"

namespace {

namespace data = torch::data;
namespace nn = torch::nn;
using namespace tessera;
using Sampler = data::samplers::DistributedRandomSampler;

struct Net : nn::Module {
  torch::Tensor forward(const torch::Tensor& x) { return last(torch::tanh(first(x))); }

  nn::Linear first = register_module("first", nn::Linear(2, 32));
  nn::Linear last = register_module("last", nn::Linear(32, 1));
};

/// Points of a plane, and the height of a wave at each point.
struct Waves : data::Dataset<Waves> {
  data::Example<> get(size_t index) override {
    const auto x = static_cast<double>(index % 32) / 8 - 2;
    const auto y = static_cast<double>(index / 32) / 8 - 2;
    return {torch::tensor({x, y}, torch::kFloat),
            torch::tensor({std::sin(2 * x) * y}, torch::kFloat)};
  }
  std::optional<size_t> size() const override { return 32 * 32; }
};

/// The mean loss of an epoch.
template <class Loader>
double train(Net& net, Loader& loader, torch::optim::Optimizer& optimizer) {
  double sum = 0;
  int64_t count = 0;
  for (const data::Example<>& batch : loader) {
    optimizer.zero_grad();
    const torch::Tensor loss = torch::mse_loss(net.forward(batch.data), batch.target);
    loss.backward();
    optimizer.step();
    sum += loss.item<double>();
    ++count;
  }
  return sum / static_cast<double>(count);
}

void run() {
  World world = World::connect();                                           // ddp
  const DeviceMesh mesh(world, Layout::row_major({{"dp", world.size()}}));  // ddp
  Net net;
  const Ddp ddp(ddp_tensors(net), mesh.get_group("dp"));  // ddp
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(1e-2));
  Waves waves;
  const Sampler sampler(*waves.size(), mesh.size("dp"), mesh.get_local_rank("dp").value);  // ddp
  const auto loader = data::make_data_loader(waves.map(data::transforms::Stack<>()), sampler, 32);

  const double first = train(net, *loader, optimizer);
  double last = first;
  for (int epoch = 1; epoch < 20; ++epoch) last = train(net, *loader, optimizer);

  double weights = 0;
  for (const torch::Tensor& parameter : net.parameters()) {
    weights += parameter.detach().to(torch::kDouble).abs().sum().item<double>();
  }
  std::cout << concat("rank ", world.rank(), ": loss ", first, " to ", last, ", weights ",
                      std::setprecision(17), weights, "\n");
  world.close();  // ddp
}

}  // namespace

int main() {
  try {
    run();
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
