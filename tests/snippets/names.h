#pragma once
// What the C++ blocks of docs/ use without saying where it comes from: their readers' own networks,
// losses and data. Declarations are enough, since the blocks are compiled, but not run.
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/world.h"
#include "tessera/format/llama_config.h"
#include "tessera/layer/linear.h"
#include "tessera/layer/rotary.h"
#include "tessera/layer/unit.h"
#include "tessera/mesh/device_mesh.h"
#include "tessera/mesh/realize.h"
#include "tessera/model/llama.h"
#include "tessera/optim/adamw.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/plan/plan.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/parameter.h"
#include "tessera/topology/box.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/engine.h"

namespace snippets {
using namespace tessera;
namespace nn = torch::nn;

struct Net : nn::Module {
  at::Tensor forward(const at::Tensor& x);
};
at::Tensor loss_of(const at::Tensor& y, const at::Tensor& target);
extern World world;
extern const Model model;
extern const std::vector<std::pair<at::Tensor, at::Tensor>> my_batches;
extern const at::Tensor tokens, targets, inputs, x;
}  // namespace snippets

namespace page_ddp {
using namespace snippets;
using Sampler = torch::data::samplers::DistributedRandomSampler;
struct Waves {
  std::optional<size_t> size() const;
};
extern const Waves waves;
extern Ddp ddp;
extern at::Tensor loss;
extern torch::optim::AdamW optimizer;
}  // namespace page_ddp

namespace page_fsdp {
using namespace snippets;
}

namespace page_checkpoints {
using namespace snippets;
extern const at::Tensor weight;
extern const DTensor table, other_layout;
}  // namespace page_checkpoints

namespace page_composition {
using namespace snippets;
extern const TokenBatches batches;
extern const LlamaConfig config;
extern const nn::Sequential net;
at::Tensor loss(const at::Tensor& y, const at::Tensor& target);
}  // namespace page_composition

namespace page_tensors {
using namespace snippets;
extern const at::Tensor w;
extern const Group group;
at::Tensor loss(const at::Tensor& weight);
}  // namespace page_tensors

namespace page_schedules {
using namespace snippets;
}

namespace page_training {
using namespace snippets;
extern const std::shared_ptr<Net> net;
at::Tensor my_loss(const at::Tensor& y, const at::Tensor& target);
}  // namespace page_training

namespace page_nemo {
using namespace snippets;
}

namespace page_context_parallel {
using namespace snippets;
extern const RealizedPlan plan;
extern const at::Tensor rows, q, k, v;
extern const RotaryTable table;
}  // namespace page_context_parallel

namespace page_data {
using namespace snippets;
extern const int64_t step;
}  // namespace page_data

namespace page_deferred {
using namespace snippets;
struct NetImpl : nn::Module {
  explicit NetImpl(int64_t width);
};
TORCH_MODULE(Net);
extern Net net;
extern const DeviceMesh mesh;
}  // namespace page_deferred

namespace page_generation {
using namespace snippets;
}

namespace page_models {
using namespace snippets;
extern const std::string text, folder;
extern const LlamaConfig config;
extern const at::Tensor hidden;
extern Llama model;
}  // namespace page_models

namespace page_optim {
using namespace snippets;
extern Llama model;
extern Engine engine;
extern AdamW optimizer;
extern const TokenBatches batches;
extern const Parameters parameters;
extern const double rate;
extern double validation_loss;
}  // namespace page_optim

namespace page_randomness {
using namespace snippets;
extern const DTensor weight;
extern const at::Tensor shard;
extern at::Tensor y;
extern const Box box;
extern const std::vector<int64_t> global_shape;
extern const int64_t first;
extern const uint64_t step;
extern const std::span<float> floats;
}  // namespace page_randomness

namespace page_recompute {
using namespace snippets;
extern const Plan plan;
extern const std::shared_ptr<Net> module;
}  // namespace page_recompute

namespace page_tensor_parallel {
using namespace snippets;
extern const LinearWeights gate, up;
extern const at::Tensor down;
extern const Group group;
}  // namespace page_tensor_parallel

namespace page_tokenizers {
using namespace snippets;
}
