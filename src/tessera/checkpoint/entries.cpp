#include "tessera/checkpoint/entries.h"

#include <torch/nn/module.h>

#include <algorithm>
#include <map>
#include <variant>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Scalars are saved with one dimension: PyTorch's tools turn 0-d tensors into zeros.
void set_place(CheckpointEntry& entry, std::vector<int64_t> shape, std::vector<Box> boxes) {
  if (shape.empty()) {
    shape = {1};
    for (Box& box : boxes) box = {.shape = {1}, .offset = {0}};
  }
  int64_t elements = 0;
  for (const Box& box : boxes) elements += box.numel();
  TSR_CHECK(elements == entry.tensor.numel(), "'", entry.name, "' has ", entry.tensor.numel(),
            " elements here, but its part of the full tensor has ", elements);
  entry.shape = std::move(shape);
  entry.boxes = std::move(boxes);
}

template <class Kind>
bool has(const Placements& placements) {
  return std::ranges::any_of(placements, [](const Placement& placement) {
    return std::holds_alternative<Kind>(placement);
  });
}

// State like a moment lies as the parameter does; a step count is one scalar.
CheckpointEntry state_entry(const OptimizerState& state, const Parameter& parameter) {
  std::string name = state_name(state.name, state.kind);
  if (state.tensor.dim() == 0 && parameter.tensor.dim() != 0) {
    return {std::move(name), state.tensor};
  }
  return {std::move(name), state.tensor, parameter.place.part};
}

}  // namespace

CheckpointEntry::CheckpointEntry(std::string name, at::Tensor tensor)
    : CheckpointEntry(std::move(name), tensor, Part(tensor.sizes().vec())) {}

CheckpointEntry::CheckpointEntry(std::string name, at::Tensor tensor, const Part& part)
    : name(std::move(name)), tensor(std::move(tensor)) {
  set_place(*this, part.shape(), part.boxes());
}

CheckpointEntry::CheckpointEntry(std::string name, const DTensor& dtensor)
    : name(std::move(name)), tensor(dtensor.to_local().detach()) {
  TSR_CHECK(!has<Partial>(dtensor.placements()), "'", this->name,
            "' is Partial: its values are sums over ranks; redistribute it first");
  TSR_CHECK(!has<StridedShard>(dtensor.placements()), "'", this->name,
            "' is a strided shard, which may lie in several pieces; redistribute it first");
  const Box box = get_local_shape_and_global_offset(dtensor);
  set_place(*this, dtensor.shape(), box.numel() == 0 ? std::vector<Box>() : std::vector{box});
}

std::string state_name(const std::string& parameter, const std::string& kind) {
  return concat("optim.state.", parameter, ".", kind);
}

CheckpointEntries entries_of(const Parameters& parameters) {
  CheckpointEntries entries;
  for (const Parameter& parameter : parameters) {
    entries.emplace_back(parameter.name, parameter.tensor.detach(), parameter.place.part);
  }
  return entries;
}

CheckpointEntries entries_of(const Optimizer& optimizer, const Parameters& parameters) {
  std::map<std::string, const Parameter*> by_name;
  for (const Parameter& parameter : parameters) by_name[parameter.name] = &parameter;
  CheckpointEntries entries;
  for (const OptimizerState& state : optimizer.state()) {
    entries.push_back(state_entry(state, *by_name.at(state.name)));
  }
  return entries;
}

CheckpointEntries entries_of(const torch::nn::Module& module) {
  CheckpointEntries entries;
  for (const auto& item : module.named_parameters()) {
    entries.emplace_back(item.key(), item.value().detach());
  }
  for (const auto& item : module.named_buffers()) entries.emplace_back(item.key(), item.value());
  return entries;
}

}  // namespace tessera
