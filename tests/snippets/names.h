#pragma once
// What the C++ blocks of docs/ use without saying where it comes from: their readers' own networks,
// losses and data. Declarations are enough, since the blocks are compiled, but not run.
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/torch.h>

#include <cmath>
#include <iostream>

#include "tessera/checkpoint/load.h"
#include "tessera/checkpoint/save.h"
#include "tessera/comm/collectives.h"
#include "tessera/data/batches.h"
#include "tessera/dialect/nemo/mesh_utils.h"
#include "tessera/dialect/nemo/training.h"
#include "tessera/format/llama_config.h"
#include "tessera/format/weight_files.h"
#include "tessera/generate/generate.h"
#include "tessera/generate/language_model.h"
#include "tessera/hook/deferred.h"
#include "tessera/layer/attention.h"
#include "tessera/layer/module_unit.h"
#include "tessera/layer/rotary.h"
#include "tessera/layer/tokens.h"
#include "tessera/model/llama.h"
#include "tessera/model/llama_units.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip.h"
#include "tessera/optim/grad_scaler.h"
#include "tessera/optim/grouped.h"
#include "tessera/optim/learning_rate.h"
#include "tessera/optim/weight_average.h"
#include "tessera/parallel/context/context_parallel.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/parallel/fsdp/fully_shard.h"
#include "tessera/parallel/recompute/recompute.h"
#include "tessera/parallel/tensor/column_linear.h"
#include "tessera/parallel/tensor/parallelize_module.h"
#include "tessera/parallel/tensor/row_linear.h"
#include "tessera/plan/context_layout.h"
#include "tessera/plan/train_plan.h"
#include "tessera/run/metrics.h"
#include "tessera/schedule/search.h"
#include "tessera/tensor/dropout.h"
#include "tessera/tensor/dtensor.h"
#include "tessera/tensor/random.h"
#include "tessera/tensor/sharded_flat_tensor.h"
#include "tessera/text/tokenizer.h"
#include "tessera/train/batch_source.h"
#include "tessera/train/compose.h"
#include "tessera/train/trainer.h"

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
