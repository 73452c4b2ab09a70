#include "tessera/parallel/fsdp/internal/sharded_units.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/groups.h"
#include "tessera/hook/gradient_hook.h"

namespace tessera::fsdp::detail {

uint64_t ShardedUnit::version() const {
  uint64_t version = 0;
  for (const FlatShard& shard : shards) version += shard.version();
  return version;
}

ShardedUnits::ShardedUnits(FsdpGroups groups, FsdpOptions options)
    : groups_(std::move(groups)), options_(options) {}

ShardedUnits::~ShardedUnits() {
  for (const ShardedUnit& unit : units_) {
    for (const at::Tensor& tensor : unit.trained) set_gradient_hook(tensor, {});
  }
}

void ShardedUnits::refuse_sharded(Parameters& parameters) {
  std::set<const c10::TensorImpl*> known;
  const auto is_refused = [&](const Parameter& parameter) {
    if (known.insert(parameter.tensor.unsafeGetTensorImpl()).second &&
        !FlatShard::has(parameter.tensor)) {
      return false;
    }
    complaint_ = concat("parameter '", parameter.name, "' is sharded twice");
    return true;
  };
  std::erase_if(parameters, is_refused);
}

void ShardedUnits::add(const std::string& name, Parameters& parameters) {
  refuse_sharded(parameters);
  const size_t index = units_.size();
  ShardedUnit& unit = units_.emplace_back(ShardedUnit{.name = name, .reads = {index}});
  std::map<std::string, std::vector<Parameter*>> by_buffer;
  for (Parameter& parameter : parameters) {
    description_.push_back(concat("parameter '", parameter.name, "' of shape (",
                                  join(parameter.place.part.shape(), ","), ") and dtype ",
                                  parameter.tensor.scalar_type()));
    by_buffer[parameter.place.buffer].push_back(&parameter);
  }
  for (const auto& [buffer, local] : by_buffer) {
    std::vector<at::Tensor> full;
    for (const Parameter* const parameter : local) full.push_back(parameter->tensor);
    unit.shards.emplace_back(std::move(full), local, groups_, options_);
    std::ranges::copy(unit.shards.back().trained(), std::back_inserter(unit.trained));
  }
  std::erase_if(parameters, [](const Parameter& p) { return p.place.part.numel() == 0; });
  watch(index);
}

void ShardedUnits::watch(size_t index) {
  for (size_t i = 0; i < units_[index].trained.size(); ++i) {
    set_gradient_hook(units_[index].trained[i], [this, index, i] {
      if (units_[index].trained[i].grad().defined()) on_gradient(index);
    });
  }
}

void ShardedUnits::share(size_t first, size_t second) {
  units_[second].reads.push_back(first);
  units_[first].is_shared = true;
}

void ShardedUnits::start() {
  for (const Group& group : {groups_.shard, groups_.replicate}) {
    throw_together(group, "each parameter can be sharded once; list it in one unit, in one call",
                   complaint_);
    check_same(group, "the sharded models differ on the ranks", description_);
  }
  for (ShardedUnit& unit : units_) {
    for (FlatShard& shard : unit.shards) shard.pack();
  }
}

void ShardedUnits::prefetch(size_t index) {
  for (const size_t read : units_[index].reads) {
    for (FlatShard& shard : units_[read].shards) shard.start_gather();
  }
}

void ShardedUnits::gather(size_t index) {
  prefetch(index);
  for (const size_t read : units_[index].reads) {
    for (FlatShard& shard : units_[read].shards) shard.finish_gather();
    units_[read].used_version = units_[read].version();
  }
}

void ShardedUnits::gather_again(size_t index) {
  for (const size_t read : units_[index].reads) {
    const ShardedUnit& unit = units_[read];
    if (unit.used_version == unit.version()) continue;
    throw StateError(concat("the parameters of '", unit.name,
                            "' have changed since the forward pass of this backward pass; update ",
                            "them after the backward pass, and run a forward pass for each"));
  }
  gather(index);
}

void ShardedUnits::after_forward(size_t index, bool has_backward) {
  using enum Reshard;
  const bool is_last = index + 1 == units_.size();
  if (has_backward &&
      (options_.reshard == kNever || (options_.reshard == kAllButLast && is_last))) {
    return;
  }
  for (const size_t read : units_[index].reads) {
    if (!has_backward || options_.reshard != kToSmaller) {
      free(read);
      continue;
    }
    for (FlatShard& shard : units_[read].shards) shard.free_to_smaller();
  }
}

void ShardedUnits::free(size_t index) {
  if (options_.reshard == Reshard::kKeep) return;
  for (FlatShard& shard : units_[index].shards) shard.free();
}

void ShardedUnits::on_gradient(size_t index) {
  ShardedUnit& unit = units_[index];
  if (unit.is_shared || ++unit.num_ready < unit.trained.size()) return;
  unit.num_ready = 0;
  if (is_per_unit()) free(index);
  if (is_per_unit() && (reduces_ || options_.reduce_each)) return start_reduce(index);
  for (FlatShard& shard : unit.shards) shard.collect_gradients();
}

void ShardedUnits::start_reduce(size_t index) {
  if (in_flight_) {
    for (FlatShard& shard : units_[*in_flight_].shards) shard.advance_reduce();
  }
  units_[index].is_reduced = true;
  for (FlatShard& shard : units_[index].shards) shard.start_reduce(options_.share);
  in_flight_ = index;
}

void ShardedUnits::begin() {
  expire();
  in_flight_.reset();
  begin_backward(false);
}

void ShardedUnits::begin_backward(bool reduces) {
  reduces_ = reduces;
  for (ShardedUnit& unit : units_) {
    unit.num_ready = 0;
    unit.is_reduced = false;
  }
}

void ShardedUnits::expire() {
  for (ShardedUnit& unit : units_) {
    for (FlatShard& shard : unit.shards) shard.expire();
  }
}

// Shared units, those without trained parameters, and those that the loss did not reach come last.
void ShardedUnits::finish(bool reduces) {
  for (size_t i = 0; i < units_.size() && reduces; ++i) {
    if (!units_[i].is_reduced) start_reduce(i);
  }
  for (size_t i = 0; i < units_.size(); ++i) {
    for (FlatShard& shard : units_[i].shards) shard.finish_reduce();
    free(i);
  }
  expire();  // The optimizer changes the shards now.
}

}  // namespace tessera::fsdp::detail
