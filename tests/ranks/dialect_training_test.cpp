// A small model, trained as the configurations of the dialects say, compared with one process.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tessera/base/text.h"
#include "tessera/dialect/megatron/training.h"
#include "tessera/dialect/nemo/training.h"
#include "tessera/dialect/olmo/training.h"
#include "tessera/optim/sgd.h"
#include "tests/ranks/replica.h"
#include "tests/testkit/device.h"
#include "tests/testkit/ranks.h"

namespace tessera {
namespace {

using testkit::Replica;
using testkit::run_ranks;

constexpr int64_t kRows = 6;
constexpr int64_t kSteps = 3;
constexpr int64_t kSlices = 2;
constexpr uint64_t kSeed = 5;

at::Tensor rows_of_step(int64_t step, at::ScalarType dtype) {
  return testkit::random_tensor({kRows, Replica::kWidth}, dtype, 40 + static_cast<uint64_t>(step));
}

// Each layer is a unit.
Model model_of(const Replica& replica) {
  std::vector<Unit> units;
  for (size_t i = 0; i < replica.parameters.size() / 2; ++i) {
    const Parameters own{replica.parameters[2 * i], replica.parameters[2 * i + 1]};
    units.push_back({.name = concat("layer", i),
                     .parameters = own,
                     .forward = [own](const at::Tensor& x, const Pass&) {
                       const at::Tensor& weight = own[0].tensor;
                       return at::linear(x.to(weight.scalar_type()), weight, own[1].tensor).tanh();
                     }});
  }
  return tessera::model_of(std::move(units), [](const at::Tensor& y, const at::Tensor&) {
    return y.to(at::kDouble).square().mean();
  });
}

// The parameters after some steps in one process.
std::map<std::string, at::Tensor> trained_alone(at::ScalarType dtype) {
  const Replica replica(dtype, kSeed);
  Sgd optimizer(replica.parameters, {.momentum = 0.9});
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    replica.loss(rows_of_step(step, dtype)).backward();
    optimizer.step(0.1);
  }
  std::map<std::string, at::Tensor> values;
  for (const Parameter& parameter : replica.parameters) values[parameter.name] = parameter.tensor;
  return values;
}

struct Case {
  std::string name;
  TrainingSetup setup;
  at::ScalarType dtype;
  double tolerance;
  double least = 0;  // The error that a dtype of the configuration must cause.
};

// The parameters of this rank after the same steps.
Parameters trained(const World& world, Case c) {
  c.setup.options.batch = kRows;
  c.setup.options.schedule = one_rank(kSlices);
  c.setup.options.device = testkit::device();
  const Replica replica(c.dtype, kSeed);
  Engine engine = compose(model_of(replica), realize(train_plan(world.size(), c.setup.dims), world),
                          c.setup.options);
  Sgd optimizer(engine.parameters(), {.momentum = 0.9});
  const Span rows = engine.rows();
  for (int64_t step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    const at::Tensor mine = rows_of_step(step, c.dtype).slice(0, rows.begin, rows.end);
    engine.train_step(mine, mine);
    optimizer.step(0.1);
  }
  return engine.parameters();
}

void check_case(const World& world, const Case& c) {
  const auto expected = trained_alone(c.dtype);
  double error = 0;
  for (const Parameter& parameter : trained(world, c)) {
    const Span own = parameter.place.part.elements();
    const at::Tensor part =
        expected.at(parameter.name).detach().reshape(-1).slice(0, own.begin, own.end);
    const at::Tensor difference = parameter.tensor.detach().reshape(-1) - part;
    error = std::max(error, difference.abs().max().item<double>());
  }
  RANK_EXPECT(error <= c.tolerance && error >= c.least) << c.name << " differs by " << error;
}

nemo::FSDP2Config in_double() {
  return {
      .mp_policy = {.param_dtype = nemo::Dtype::kFloat64, .reduce_dtype = nemo::Dtype::kFloat64}};
}

// The default of reduce_dtype is float32, whatever the parameters are.
std::vector<Case> olmo_cases(int64_t world) {
  std::vector<Case> cases;
  for (const auto type : {olmo::DataParallelType::fsdp, olmo::DataParallelType::ddp}) {
    cases.push_back({concat("OLMo ", type), olmo::training_setup(world, {.dp = {{.name = type}}}),
                     at::kDouble, 1e-6, 1e-12});
  }
  return cases;
}

std::vector<Case> nemo_cases(int64_t world) {
  std::vector<Case> cases;
  const auto add = [&](const std::string& name, const nemo::DistributedConfig& config) {
    cases.push_back({name, nemo::training_setup(world, config), at::kDouble, testkit::kExact});
  };
  add("FSDP2", in_double());
  nemo::FSDP2Config config = in_double();
  config.reshard_after_forward = true;
  config.activation_checkpointing = nemo::ActivationCheckpointing::kFull;
  add("FSDP2 with recompute", config);
  config.reshard_after_forward = false;
  config.defer_fsdp_grad_sync = false;
  add("FSDP2 that reduces each slice", config);
  for (int64_t strategy = 0; strategy <= 3; ++strategy) {
    add(concat("MegatronFSDP ", strategy), nemo::MegatronFSDPConfig{.zero_dp_strategy = strategy});
  }
  add("DDP", nemo::DDPConfig{.bucket_cap_mb = 1e-4});
  // bf16 has 8 bits: the gradients of a step differ by about 1 %, the steps by a tenth of that.
  cases.push_back(
      {"FSDP2 in bf16", nemo::training_setup(world, nemo::FSDP2Config{}), at::kFloat, 2e-2});
  return cases;
}

TEST(DialectTraining, TwoRanksTrainAsOneProcess) {
  run_ranks(2, [](World& world) {
    for (const Case& c : olmo_cases(world.size())) check_case(world, c);
    for (const Case& c : nemo_cases(world.size())) check_case(world, c);
    for (const int64_t instances : {1, 2}) {
      check_case(world,
                 {concat("Megatron, instances ", instances),
                  megatron::training_setup(2, {.num_distributed_optimizer_instances = instances}),
                  at::kDouble, testkit::kExact});
    }
  });
}

}  // namespace
}  // namespace tessera
