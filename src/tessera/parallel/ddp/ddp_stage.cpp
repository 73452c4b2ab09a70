#include "tessera/parallel/ddp/ddp_stage.h"

#include <utility>

namespace tessera {

DdpStage::DdpStage(std::vector<ReducedTensors> parts, ReduceTime when, const DdpOptions& options)
    : parts_(std::move(parts)), when_(when), options_(options) {}

void DdpStage::start() {
  for (const auto& [tensors, group, share] : parts_) {
    ddp_.emplace_back(tensors, group, options_);
    ddp_.back().set_share(share);
  }
}

void DdpStage::begin_step() {
  held_.clear();
  for (const Ddp& ddp : ddp_) held_.push_back(ddp.no_sync());
}

void DdpStage::last_backward() {
  if (when_ == ReduceTime::kInBackward) held_.clear();
}

void DdpStage::reduce_grad() {
  if (when_ == ReduceTime::kInBackward) return;
  held_.clear();
  for (const Ddp& ddp : ddp_) ddp.start_reduce();
}

void DdpStage::finish_step() {
  if (when_ == ReduceTime::kInBackward) return;
  for (const Ddp& ddp : ddp_) ddp.finish_reduce();
}

}  // namespace tessera
