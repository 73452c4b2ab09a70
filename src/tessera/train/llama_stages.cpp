#include "tessera/train/llama_stages.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/objects.h"
#include "tessera/plan/split_points.h"

namespace tessera {
namespace {

// What named_parameters() begins with where a part has one.
at::Tensor vocabulary_of(const Llama& part) {
  return part.named_parameters().front().tensor;
}

GlobalRank rank_at(const DeviceMesh& mesh, GroupRank pp, int64_t dp) {
  const std::array<int64_t, 2> coordinate{pp.value, dp};
  return mesh.layout().rank(coordinate);
}

// The tensors that are this rank's to write.
std::map<std::string, at::Tensor> own_tensors(const LlamaStages& stages, const TiedHead& tied) {
  std::map<std::string, at::Tensor> own;
  for (const NamedParameter& parameter : stages.parameters()) {
    if (!tied.is_copy(parameter.tensor)) own[parameter.name] = parameter.tensor;
  }
  return own;
}

std::map<std::string, GroupRank> owners_of(const std::map<std::string, at::Tensor>& own,
                                           const Group& group) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : own) names.push_back(name);
  const auto all = all_gather_object(names, group);
  std::map<std::string, GroupRank> owners;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (const std::string& name : all[rank]) owners[name] = GroupRank{static_cast<int64_t>(rank)};
  }
  return owners;
}

}  // namespace

std::vector<LlamaPart> llama_parts(const LlamaConfig& config, int64_t num_stages) {
  std::vector<int64_t> bounds = even_split_points(config.num_hidden_layers, num_stages);
  bounds.insert(bounds.begin(), 0);
  bounds.push_back(config.num_hidden_layers);
  std::vector<LlamaPart> parts;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    parts.push_back({.begin = bounds[i],
                     .end = bounds[i + 1],
                     .embedding = i == 0,
                     .head = i + 2 == bounds.size()});
  }
  return parts;
}

NamedParameters LlamaStages::parameters() const {
  NamedParameters all;
  for (const auto& part : parts) {
    for (NamedParameter& parameter : part->named_parameters()) {
      const bool known = std::ranges::any_of(
          all, [&](const NamedParameter& other) { return other.name == parameter.name; });
      if (!known) all.push_back(std::move(parameter));
    }
  }
  return all;
}

LlamaStages make_llama_stages(const LlamaConfig& config, const LlamaOptions& options,
                              const Schedule& schedule, GroupRank rank) {
  const std::vector<LlamaPart> all = llama_parts(config, schedule.num_stages());
  LlamaStages stages{.indices = schedule.stages_of(rank)};
  for (const int64_t stage : stages.indices) {
    LlamaOptions own = options;
    own.part = all[static_cast<size_t>(stage)];
    stages.parts.push_back(std::make_shared<Llama>(config, own));
  }
  return stages;
}

TiedHead::TiedHead(const LlamaStages& stages, const Schedule& schedule, const WorldHandle& world,
                   const DeviceMesh& mesh) {
  if (!stages.parts.front()->config().tie_word_embeddings || schedule.num_stages() == 1) return;
  for (const auto& part : stages.parts) {
    if (part->part().embedding) embedding_ = vocabulary_of(*part);
    if (part->part().head) head_ = vocabulary_of(*part);
  }
  const GroupRank first = schedule.rank_of(0);
  const GroupRank last = schedule.rank_of(schedule.num_stages() - 1);
  if (first == last) {
    if (head_.defined()) head_.set_data(embedding_);
    return;
  }
  std::vector<GroupRequest> requests;
  for (int64_t dp = 0; dp < mesh.size("dp"); ++dp) {
    requests.push_back({.ranks = {rank_at(mesh, first, dp), rank_at(mesh, last, dp)},
                        .options = {.name = "embedding"}});
  }
  for (Group& group : world.make_groups(requests)) {
    if (group.is_member()) group_.push_back(std::move(group));
  }
}

void TiedHead::add_gradients() const {
  const at::NoGradGuard no_grad;
  if (!group_.empty()) {
    all_reduce((embedding_.defined() ? embedding_ : head_).grad(), group_.front()).wait();
  } else if (head_.defined()) {
    embedding_.grad().add_(head_.grad());
    head_.mutable_grad().reset();
  }
}

bool TiedHead::is_copy(const at::Tensor& parameter) const {
  return head_.defined() && parameter.is_same(head_);
}

void save_llama_stages(const LlamaStages& stages, const TiedHead& tied, const DeviceMesh& mesh,
                       const std::string& folder) {
  if (mesh.get_local_rank("dp").value != 0) return;
  const Group group = mesh.get_group("pp");
  const auto own = own_tensors(stages, tied);
  const auto owners = owners_of(own, group);
  const Llama& part = *stages.parts.front();
  const Llama whole(part.config(), {.dtype = part.dtype()});
  if (group.rank() == GroupRank{0}) {
    whole.save(folder, Llama::kShardBytes, [&](const NamedParameter& wanted) {
      const auto mine = own.find(wanted.name);
      if (mine != own.end()) return mine->second;
      const at::Tensor values = at::empty(wanted.tensor.sizes(), wanted.tensor.options());
      return recv(values, owners.at(wanted.name), group).wait();
    });
    return;
  }
  for (const NamedParameter& wanted : whole.named_parameters()) {
    const auto mine = own.find(wanted.name);
    if (mine == own.end()) continue;
    send(mine->second.detach().to(at::kCPU), GroupRank{0}, group).wait();
  }
}

}  // namespace tessera
