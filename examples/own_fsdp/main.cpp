// Your own module, sharded over all ranks (FSDP). The network is the small one that LibTorch's
// users know from MNIST; it knows nothing of Tessera. It learns to read pictures of digits that the
// program draws itself:
//
//   own_fsdp
//   tessera run --nproc 2 -- own_fsdp
//
// Both print the same losses, up to rounding. `own_fsdp 0.5` trains with dropout: each rank draws
// its own numbers, so the losses then depend on the number of ranks.
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize.h>

#include <exception>
#include <iostream>
#include <memory>

#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tessera/parallel/fsdp/fully_shard.h"

namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using namespace tessera;

constexpr int kEpochs = 5;
constexpr int64_t kBatch = 64;  // Rows of all ranks together.
constexpr const char* kFile = "own_fsdp.pt";

struct Net : nn::Module {
  explicit Net(double rate)
      : drop_maps(register_module("drop_maps", nn::Dropout2d(rate))),
        drop(register_module("drop", nn::Dropout(rate))) {}

  // [rows, 1, 28, 28] → [rows, 10]
  at::Tensor forward(at::Tensor x) {
    x = at::relu(F::max_pool2d(conv1->forward(x), F::MaxPool2dFuncOptions(2)));
    x = drop_maps->forward(conv2->forward(x));
    x = at::relu(F::max_pool2d(x, F::MaxPool2dFuncOptions(2)));
    x = drop->forward(at::relu(fc1->forward(x.flatten(1))));
    return at::log_softmax(fc2->forward(x), 1);
  }

  nn::Conv2d conv1 = register_module("conv1", nn::Conv2d(1, 10, 5));
  nn::Conv2d conv2 = register_module("conv2", nn::Conv2d(10, 20, 5));
  nn::Linear fc1 = register_module("fc1", nn::Linear(320, 50));
  nn::Linear fc2 = register_module("fc2", nn::Linear(50, 10));
  nn::Dropout2d drop_maps;
  nn::Dropout drop;
};

// A digit as a display of seven segments shows it: 15 rows of 9 dots.
at::Tensor glyph(int digit) {
  // Top, upper left, upper right, middle, lower left, lower right, bottom.
  static constexpr const char* kLit[] = {"1110111", "0010010", "1011101", "1011011", "0111010",
                                         "1101011", "1101111", "1010010", "1111111", "1111011"};
  struct Rectangle {
    int64_t row, column, height, width;
  };
  static constexpr Rectangle kSegments[] = {{0, 0, 2, 9}, {0, 0, 8, 2}, {0, 7, 8, 2}, {6, 0, 2, 9},
                                            {7, 0, 8, 2}, {7, 7, 8, 2}, {13, 0, 2, 9}};
  const at::Tensor dots = at::zeros({15, 9});
  for (size_t i = 0; i < std::size(kSegments); ++i) {
    if (kLit[digit][i] == '0') continue;
    const auto& [row, column, height, width] = kSegments[i];
    dots.narrow(0, row, height).narrow(1, column, width).fill_(1);
  }
  return dots;
}

struct Rows {
  at::Tensor pictures;  // [rows, 1, 28, 28]
  at::Tensor digits;    // [rows]

  Rows to(at::Device device) const { return {pictures.to(device), digits.to(device)}; }

  // One of `count` parts. Their sizes differ by one row at most.
  Rows part(int64_t count, int64_t index) const {
    return {pictures.tensor_split(count)[static_cast<size_t>(index)],
            digits.tensor_split(count)[static_cast<size_t>(index)]};
  }
};

// Digits at random places, of random brightness, in noise. A seed means the same pictures on all
// ranks.
Rows draw(int64_t count, uint64_t seed) {
  torch::manual_seed(seed);
  const at::Tensor pictures = at::randn({count, 1, 28, 28}).mul_(0.2);
  const at::Tensor digits = at::randint(10, {count}, at::kLong);
  const at::Tensor rows = at::randint(4, 10, {count}, at::kLong);
  const at::Tensor columns = at::randint(7, 13, {count}, at::kLong);
  const at::Tensor brightness = at::rand({count}).add_(0.5);
  std::vector<at::Tensor> glyphs;
  for (int digit = 0; digit < 10; ++digit) glyphs.push_back(glyph(digit));
  for (int64_t i = 0; i < count; ++i) {
    pictures[i][0]
        .narrow(0, rows[i].item<int64_t>(), 15)
        .narrow(1, columns[i].item<int64_t>(), 9)
        .add_(glyphs[static_cast<size_t>(digits[i].item<int64_t>())] * brightness[i]);
  }
  return {pictures, digits};
}

double num_correct(Net& net, const Rows& rows) {
  net.eval();
  const at::NoGradGuard no_grad;
  return net.forward(rows.pictures).argmax(1).eq(rows.digits).sum().item<double>();
}

class Training {
 public:
  Training(std::shared_ptr<Net> net, const World& world)
      : net_(std::move(net)),
        group_(world.group()),
        sharded_(fully_shard(*net_, init_device_mesh(world, {world.size()}, {"dp"}),
                             {.units = {"conv*", "fc*"}})),
        optimizer_(sharded_.parameters(), {.weight_decay = 0}) {}

  // The mean loss.
  double epoch(const Rows& data) {
    net_->train();
    double sum = 0;
    const int64_t steps = data.digits.size(0) / kBatch;
    for (int64_t i = 0; i < steps; ++i) {
      const Rows mine = data.part(steps, i).part(group_.size(), group_.rank().value);
      sum += step(mine, static_cast<double>(mine.digits.size(0)) / kBatch);
    }
    return sum / static_cast<double>(steps);
  }

  // The fraction of digits that the network reads correctly.
  double accuracy(const Rows& data) {
    const Rows mine = data.part(group_.size(), group_.rank().value);
    return sum_over_ranks(num_correct(*net_, mine)) / static_cast<double>(data.digits.size(0));
  }

  // All ranks gather the parameters; rank 0 writes a file for torch::load().
  void save(const std::string& path) {
    sharded_.unshard();
    if (group_.rank() == GroupRank{0}) torch::save(net_, path);
    sharded_.reshard();
  }

  int64_t shard_bytes() const {
    int64_t bytes = 0;
    for (const Parameter& shard : sharded_.parameters()) {
      bytes += static_cast<int64_t>(shard.tensor.nbytes());
    }
    return bytes;
  }

 private:
  double step(const Rows& mine, double share) {
    optimizer_.zero_grad();
    const at::Tensor loss = at::nll_loss(net_->forward(mine.pictures), mine.digits);
    sharded_.set_share(share);
    loss.backward();
    clip_grad_norm_(sharded_.parameters(), 1, sharded_.shards());
    optimizer_.step(3e-3);
    return sum_over_ranks(loss.item<double>() * share);
  }

  double sum_over_ranks(double value) const {
    return all_reduce(at::scalar_tensor(value, at::kDouble), group_).wait().item<double>();
  }

  std::shared_ptr<Net> net_;
  Group group_;
  ShardedModule sharded_;
  AdamW optimizer_;
};

// The saved module is an ordinary one: no other rank takes part.
double accuracy_of_saved(const Rows& data) {
  auto net = std::make_shared<Net>(0);
  torch::load(net, kFile, data.pictures.device());
  return num_correct(*net, data) / static_cast<double>(data.digits.size(0));
}

void run(double dropout) {
  at::set_num_threads(1);  // The network is too small for more.
  World world = World::connect();
  const Rows data = draw(40 * kBatch, /*seed=*/1).to(world.device());
  const Rows unseen = draw(500, /*seed=*/2).to(world.device());
  // Each rank draws other numbers for dropout. All ranks start with the values of rank 0.
  torch::manual_seed(static_cast<uint64_t>(world.rank().value));
  const auto net = std::make_shared<Net>(dropout);
  net->to(world.device());
  Training training(net, world);
  std::cout << concat("rank ", world.rank(), " keeps ", training.shard_bytes(),
                      " bytes of parameters\n");

  const bool tells = world.rank() == GlobalRank{0};
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const double loss = training.epoch(data);
    if (tells) std::cout << "epoch " << epoch << "  loss " << loss << "\n";
  }
  const double accuracy = training.accuracy(unseen);
  training.save(kFile);
  if (tells) {
    std::cout << "unseen pictures  accuracy " << accuracy << "\n";
    std::cout << "saved in " << kFile << ", read back  accuracy " << accuracy_of_saved(unseen)
              << "\n";
  }
  world.close();
}

}  // namespace

int main(int count, char** arguments) {
  try {
    run(count > 1 ? std::stod(arguments[1]) : 0);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
