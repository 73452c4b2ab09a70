// One rank of 64 initializes its part of a model of 7 billion parameters.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/random.h"

namespace tessera {
namespace {

using Shape = std::vector<int64_t>;

constexpr int64_t kMebibyte = 1 << 20;

struct Parameter {
  std::string name;
  Shape shape;
  Placements placements;  // On (dp, tp).
};

const Placements kColumnwise{StridedShard{0, 8}, Shard{0}};
const Placements kRowwise{Shard{0}, Shard{1}};
const Placements kNorm{Shard{0}, Replicate{}};

std::vector<Parameter> llama_7b() {
  std::vector<Parameter> all{{"tok_embeddings", {32'000, 4'096}, kRowwise},
                             {"norm", {4'096}, kNorm},
                             {"output", {32'000, 4'096}, kColumnwise}};
  for (int i = 0; i < 32; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    for (const char* name : {"wq", "wk", "wv"}) {
      all.push_back({layer + name, {4'096, 4'096}, kColumnwise});
    }
    all.push_back({layer + "wo", {4'096, 4'096}, kRowwise});
    for (const char* name : {"w1", "w3"}) {
      all.push_back({layer + name, {11'008, 4'096}, kColumnwise});
    }
    all.push_back({layer + "w2", {4'096, 11'008}, kRowwise});
    for (const char* name : {"attention_norm", "ffn_norm"}) {
      all.push_back({layer + name, {4'096}, kNorm});
    }
  }
  return all;
}

DTensor initialised(const Parameter& parameter, const DeviceMesh& mesh) {
  const Box box =
      compute_local_shape_and_global_offset(parameter.shape, mesh, parameter.placements);
  const DTensor tensor =
      DTensor::from_local(at::empty(box.shape, at::kBFloat16), mesh, parameter.placements,
                          {.shape = parameter.shape, .check = false});
  init_(tensor, {.seed = 1, .name = parameter.name}, Normal{0, 0.02});
  return tensor;
}

/// A value of this process's /proc status, in bytes.
int64_t status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    int64_t kibibytes = 0;
    if (word == name && file >> kibibytes) return kibibytes * 1024;
  }
  ADD_FAILURE() << "/proc/self/status has no " << name;
  return 0;
}

TEST(InitMemory, OneRankOf64HoldsOneSixtyFourthAndNoFullTensor) {
  const World world = World::fake(GlobalRank{0}, 64);
  const DeviceMesh mesh(world, Layout::row_major({{"dp", 8}, {"tp", 8}}));
  std::ofstream("/proc/self/clear_refs") << 5;  // Resets the peak.
  const int64_t before = status("VmRSS:");
  int64_t total = 0;
  int64_t mine = 0;
  std::vector<DTensor> model;
  for (const Parameter& parameter : llama_7b()) {
    model.push_back(initialised(parameter, mesh));
    mine += static_cast<int64_t>(model.back().to_local().nbytes());
    total += 2 * Box{parameter.shape, {}}.numel();
  }
  const int64_t peak = status("VmHWM:") - before;
  EXPECT_EQ(total, 2 * int64_t{6'738'415'616});
  EXPECT_NEAR(static_cast<double>(mine), static_cast<double>(total) / 64, kMebibyte);
  // The largest tensor alone would be 250 MiB.
  EXPECT_LT(peak, mine + 4 * kMebibyte);
  EXPECT_GT(peak, mine - 4 * kMebibyte) << "the measurement sees the shards";
}

}  // namespace
}  // namespace tessera
