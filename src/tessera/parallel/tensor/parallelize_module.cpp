#include "tessera/parallel/tensor/parallelize_module.h"

#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/hook/operator_override.h"
#include "tessera/hook/storage_reads.h"
#include "tessera/parallel/tensor/internal/layouts.h"
#include "tessera/parallel/tensor/internal/split_operators.h"
#include "tessera/tensor/unallocated.h"

namespace tessera {

using namespace tensor::detail;

namespace {

Group group_of(const DeviceMesh& mesh) {
  TSR_CHECK(mesh.ndim() == 1, "parallelize_module needs a mesh with one axis, but has ",
            mesh.to_string(), "; slice the mesh first, e.g. mesh[\"tp\"]");
  TSR_CHECK(mesh.is_member(), "rank ", mesh.get_rank(),
            " is not in the mesh of parallelize_module, ", mesh.to_string(),
            "; call it on ranks of the mesh");
  return mesh.get_group();
}

// What is wrong with a parameter, "" if nothing is.
std::string complaint_about(const std::string& name, const at::Tensor& tensor) {
  if (OperatorOverride::overrides(tensor)) {
    return concat("has parameter '", name, "', which is split already");
  }
  if (StorageReads::watches(tensor)) {
    return concat("has parameter '", name,
                  "', which fully_shard() has sharded; call parallelize_module() first");
  }
  if (is_unallocated(tensor)) {
    return concat("has parameter '", name, "', which was built without memory");
  }
  return "";
}

// ConfigError, the same on all ranks, unless the module can be split by the plan.
ParameterRules checked_rules(const torch::nn::Module& module, const ParallelPlan& plan,
                             const Group& group) {
  ParameterRules rules;
  std::string complaint;
  try {
    rules = rules_of(module, plan);
  } catch (const ConfigError& error) {
    complaint = error.what();
  }
  std::vector<std::string> lines;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (complaint.empty()) complaint = complaint_about(item.key(), tensor);
    const auto rule = rules.find(tensor.unsafeGetTensorImpl());
    lines.push_back(concat("parameter '", item.key(), "' of shape ", tensor.sizes(), " and dtype ",
                           tensor.scalar_type(), tensor.requires_grad() ? "" : ", frozen", ", ",
                           rule == rules.end() ? "not in the plan" : rule->second.text()));
  }
  throw_together(group, "parallelize_module cannot split the module", complaint);
  check_same(group, "the modules or plans of parallelize_module differ on the ranks", lines);
  return rules;
}

void take_values_of_first(const at::Tensor& tensor, const Group& group) {
  tensor.copy_(broadcast(tensor.detach().clone(), GroupRank{0}, group).wait());
}

}  // namespace

struct ParallelModule::State {
  State(const torch::nn::Module& module, const DeviceMesh& mesh, const ParallelPlan& plan);
  void split(const torch::nn::Module& module, const std::string& axis);
  SplitDim split_of(const ParameterRule& rule) const;

  SplitOperators operators;
  Parameters parameters = {};
  std::vector<std::pair<std::string, at::Tensor>> named = {};  // A tensor may have several names.
  std::optional<OperatorOverride> override = std::nullopt;
};

ParallelModule::State::State(const torch::nn::Module& module, const DeviceMesh& mesh,
                             const ParallelPlan& plan)
    : operators(checked_rules(module, plan, group_of(mesh)), group_of(mesh)) {
  split(module, mesh.axis_names().front());
  std::vector<at::Tensor> tensors;
  for (const auto& [tensor, rule] : operators.rules()) tensors.push_back(rule.tensor);
  override.emplace(tensors, [this](const c10::OperatorHandle& op, std::vector<c10::IValue>& stack) {
    return operators.run(op, stack);
  });
}

SplitDim ParallelModule::State::split_of(const ParameterRule& rule) const {
  const size_t dim = rule.dim.value();
  return {operators.group(), static_cast<int64_t>(dim), rule.shape[dim]};
}

void ParallelModule::State::split(const torch::nn::Module& module, const std::string& axis) {
  const at::NoGradGuard no_grad;
  const Group& group = operators.group();
  std::set<const c10::TensorImpl*> known;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& tensor = item.value();
    named.emplace_back(item.key(), tensor);
    if (!known.insert(tensor.unsafeGetTensorImpl()).second) continue;
    take_values_of_first(tensor, group);
    Parameter parameter(item.key(), tensor);
    const auto rule = operators.rules().find(tensor.unsafeGetTensorImpl());
    if (rule != operators.rules().end() && rule->second.dim) {
      parameter.tensor_dim = rule->second.dim;
      parameter.place.part =
          parameter.place.part.cut(*rule->second.dim, group.size(), group.rank().value);
      parameter.place.cut_over = {axis};
      tensor.mutable_grad() = at::Tensor();
      tensor.set_data(piece_of(tensor.detach(), split_of(rule->second)));
    } else {
      parameter.place.tensor_copies = group.size();
      parameter.place.counts = group.rank() == GroupRank{0};
    }
    parameters.push_back(std::move(parameter));
  }
  for (const at::Tensor& buffer : module.buffers()) take_values_of_first(buffer, group);
}

ParallelModule::ParallelModule(std::shared_ptr<State> state) : state_(std::move(state)) {}
ParallelModule::ParallelModule(ParallelModule&&) noexcept = default;
ParallelModule& ParallelModule::operator=(ParallelModule&&) noexcept = default;
ParallelModule::~ParallelModule() = default;

const Parameters& ParallelModule::parameters() const& {
  return state_->parameters;
}

Parameters ParallelModule::parameters() && {
  return state_->parameters;
}

const Group& ParallelModule::group() const {
  return state_->operators.group();
}

std::vector<std::pair<std::string, at::Tensor>> ParallelModule::full_parameters() const {
  const at::NoGradGuard no_grad;
  std::vector<std::pair<std::string, at::Tensor>> full;
  for (const auto& [name, tensor] : state_->named) {
    const auto rule = state_->operators.rules().find(tensor.unsafeGetTensorImpl());
    const bool is_split = rule != state_->operators.rules().end() && rule->second.dim;
    full.emplace_back(name, is_split ? whole_of(tensor.detach(), state_->split_of(rule->second))
                                     : tensor.detach().clone());
  }
  return full;
}

Parameters ParallelModule::counted_once(Parameters shards) const {
  for (Parameter& shard : shards) {
    const auto own = std::ranges::find(state_->parameters, shard.name, &Parameter::name);
    TSR_CHECK(own != state_->parameters.end(), "no parameter of the module is named '", shard.name,
              "'");
    shard.place.counts = shard.place.counts && own->place.counts;
  }
  return shards;
}

ParallelModule parallelize_module(torch::nn::Module& module, const DeviceMesh& mesh,
                                  const ParallelPlan& plan) {
  return ParallelModule(std::make_shared<ParallelModule::State>(module, mesh, plan));
}

}  // namespace tessera
