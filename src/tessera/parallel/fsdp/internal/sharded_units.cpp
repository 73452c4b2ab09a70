#include "tessera/parallel/fsdp/internal/sharded_units.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/hook/gradient_hook.h"
#include "tessera/hook/storage_reads.h"
#include "tessera/tensor/unallocated.h"

namespace tessera::fsdp::detail {

std::vector<std::string> describe(const std::string& unit, const Parameters& parameters) {
  std::vector<std::string> lines;
  for (const Parameter& parameter : parameters) {
    if (parameter.expert) continue;  // Other ranks hold other experts.
    lines.push_back(concat(
        "parameter '", parameter.name, "' of shape (", join(parameter.place.part.shape(), ","),
        ") and dtype ", parameter.tensor.scalar_type(),
        parameter.tensor.requires_grad() ? "" : ", frozen",
        is_unallocated(parameter.tensor) ? ", without memory" : "", ", in unit '", unit, "'"));
  }
  return lines;
}

std::string describe(const FsdpOptions& options) {
  const auto text = [](const std::optional<at::ScalarType>& dtype) {
    return dtype ? c10::toString(*dtype) : "that of the parameters";
  };
  return concat("resharding policy ", static_cast<int>(options.reshard), " with groups of ",
                options.smaller, options.reduce_each ? ", reduction of each slice" : "",
                ", compute dtype ", text(options.compute_dtype), ", reduction dtype ",
                text(options.reduce_dtype), options.offload ? ", offload" : "");
}

std::string first_sharded(const Parameters& parameters) {
  std::set<const c10::TensorImpl*> known;
  for (const Parameter& parameter : parameters) {
    if (known.insert(parameter.tensor.unsafeGetTensorImpl()).second &&
        !FlatShard::has(parameter.tensor)) {
      continue;
    }
    return concat("has parameter '", parameter.name, "', which is sharded already");
  }
  return "";
}

// An error of some ranks of a shard group becomes that of all of them, then that of all replicas.
void check_both(const FsdpGroups& groups, const std::function<void(const Group&)>& check) {
  std::string complaint;
  try {
    check(groups.shard);
  } catch (const ConfigError& error) {
    if (groups.replicate.size() == 1) throw;
    complaint = error.what();
  }
  throw_together(groups.replicate, "a replica cannot be sharded", complaint);
  check(groups.replicate);
}

void check_alike(const FsdpGroups& groups, const std::vector<std::string>& description,
                 const std::string& sharded_twice) {
  check_both(groups, [&](const Group& group) {
    throw_together(group, "each parameter can be sharded once: in one unit, by one call",
                   sharded_twice);
    check_same(group, "the sharded models differ on the ranks", description);
  });
}

ShardedUnits::ShardedUnits(const FsdpGroups& groups, const FsdpGroups& experts,
                           const FsdpOptions& options)
    : groups_(groups),
      expert_groups_(experts),
      options_(options),
      description_{describe(options)} {}

ShardedUnits::~ShardedUnits() {
  // A gather ahead of time that nothing has waited for would make the group unusable.
  if (std::uncaught_exceptions() == 0) {
    try {
      expire();
    } catch (const CommError&) {  // The group tells its next user.
    }
  }
  for (const ShardedUnit& unit : units_) {
    for (const at::Tensor& tensor : unit.trained) set_gradient_hook(tensor, {});
  }
}

void ShardedUnits::add(const std::string& name, Parameters& parameters) {
  if (sharded_twice_.empty()) sharded_twice_ = first_sharded(parameters);
  if (!sharded_twice_.empty()) return;  // start() throws.
  const size_t index = units_.size();
  ShardedUnit& unit = units_.emplace_back(ShardedUnit{.name = name, .reads = {index}});
  std::ranges::copy(describe(name, parameters), std::back_inserter(description_));
  std::map<std::string, std::vector<Parameter*>> by_buffer;
  for (Parameter& parameter : parameters) {
    by_buffer[parameter.place.buffer].push_back(&parameter);
  }
  for (const auto& [buffer, local] : by_buffer) {
    std::vector<at::Tensor> full;
    for (const Parameter* const parameter : local) full.push_back(parameter->tensor);
    const bool of_experts = local.front()->expert.has_value();
    unit.shards.emplace_back(std::move(full), local, of_experts ? expert_groups_ : groups_,
                             options_);
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
  check_alike(groups_, description_, sharded_twice_);
  for (ShardedUnit& unit : units_) {
    for (FlatShard& shard : unit.shards) shard.pack();
  }
}

void ShardedUnits::record(const UnitRecorder& recorder) {
  for (ShardedUnit& unit : units_) {
    unit.log = recorder.log_of(unit.name);
    for (FlatShard& shard : unit.shards) shard.record(unit.log);
  }
}

void ShardedUnits::prefetch(size_t index) {
  for (const size_t read : units_[index].reads) {
    for (FlatShard& shard : units_[read].shards) shard.start_gather();
  }
}

void ShardedUnits::free_old() {
  if (used_version_ == version()) return;
  for (size_t i = 0; i < units_.size(); ++i) free(i);
  expire();
}

bool ShardedUnits::is_gathered(size_t index) const {
  return used_version_ == version() && std::ranges::all_of(units_[index].reads, [&](size_t read) {
           return std::ranges::all_of(units_[read].shards, &FlatShard::is_gathered);
         });
}

void ShardedUnits::gather(size_t index) {
  free_old();
  prefetch(index);
  for (const size_t read : units_[index].reads) {
    for (FlatShard& shard : units_[read].shards) shard.finish_gather();
    units_[read].is_used = true;
  }
  used_version_ = version();
}

void ShardedUnits::before_backward(size_t index, bool reads) {
  backward_.end();
  if (used_version_ != version()) {
    throw StateError(concat("parameters have changed between a forward pass and the backward pass ",
                            "of '", units_[index].name, "'; update them after the backward pass, ",
                            "and run a forward pass before each"));
  }
  if (reads) gather(index);
  backward_ = units_[index].log.begin(UnitAction::kBackward);
}

uint64_t ShardedUnits::version() const {
  uint64_t version = 0;
  for (const ShardedUnit& unit : units_) {
    for (const FlatShard& shard : unit.shards) version += shard.version();
  }
  return version;
}

void ShardedUnits::after_forward(size_t index, const ForwardEnd& end) {
  using enum Reshard;
  const bool stays = options_.reshard == kNever || (options_.reshard == kAllButLast && end.is_last);
  if (end.has_backward && stays) return;
  for (const size_t read : units_[index].reads) {
    if (!end.has_backward || options_.reshard != kToSmaller) {
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

void ShardedUnits::free_all() {
  for (ShardedUnit& unit : units_) {
    for (FlatShard& shard : unit.shards) shard.free();
  }
}

void ShardedUnits::on_gradient(size_t index) {
  const UnwatchedReads unwatched;
  if (observer_) observer_();
  ShardedUnit& unit = units_[index];
  if (unit.is_shared || ++unit.num_ready < unit.trained.size()) return;
  backward_.end();
  if (is_per_unit()) free(index);
  if (is_per_unit() && (reduces_ || options_.reduce_each)) return start_reduce(index);
  unit.num_ready = 0;
  for (FlatShard& shard : unit.shards) shard.collect_gradients();
}

void ShardedUnits::start_reduce(size_t index) {
  if (in_flight_) {
    for (FlatShard& shard : units_[*in_flight_].shards) shard.advance_reduce();
  }
  units_[index].is_reduced = true;
  units_[index].num_ready = 0;
  for (FlatShard& shard : units_[index].shards) {
    const double equal = 1 / static_cast<double>(expert_groups_.size());
    shard.start_reduce(shard.of_experts() ? equal : options_.share);
  }
  in_flight_ = index;
}

void ShardedUnits::drop_gradients() {
  for (ShardedUnit& unit : units_) {
    for (FlatShard& shard : unit.shards) shard.drop_gradients();
  }
  in_flight_.reset();
}

void ShardedUnits::begin() {
  expire();
  used_version_ = version();
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

// Last come shared units, those that the loss did not reach in whole, and those that have had more
// gradients after their reduction, from a nested backward pass.
void ShardedUnits::finish(bool reduces) {
  backward_.end();
  for (size_t i = 0; i < units_.size(); ++i) {
    ShardedUnit& unit = units_[i];
    if (!reduces) {
      for (FlatShard& shard : unit.shards) shard.collect_gradients();
    } else if ((unit.is_used && !unit.is_reduced) || unit.num_ready > 0) {
      start_reduce(i);
    }
  }
  if (reduces) publish();
  for (size_t i = 0; i < units_.size(); ++i) free(i);
  if (reduces) expire();  // The optimizer changes the shards now.
}

// A parameter without gradient on all ranks stays without, as in one process: an optimizer must not
// change it. The ranks compare notes while the last reductions are in flight.
void ShardedUnits::publish() {
  const std::vector<bool> dense = seen_by_any(false);
  const std::vector<bool> experts = seen_by_any(true);
  auto next_dense = dense.begin();
  auto next_expert = experts.begin();
  for (ShardedUnit& unit : units_) {
    unit.is_used = false;
    for (FlatShard& shard : unit.shards) {
      auto& next = shard.of_experts() ? next_expert : next_dense;
      const auto end = next + static_cast<std::ptrdiff_t>(shard.seen().size());
      shard.finish_reduce();
      shard.publish(std::vector<bool>(next, end));
      next = end;
    }
  }
}

std::vector<bool> ShardedUnits::seen_by_any(bool of_experts) const {
  std::vector<int64_t> seen;
  for (const ShardedUnit& unit : units_) {
    for (const FlatShard& shard : unit.shards) {
      if (shard.of_experts() != of_experts) continue;
      std::ranges::copy(shard.seen(), std::back_inserter(seen));
    }
  }
  if (seen.empty()) return {};
  const FsdpGroups& groups = of_experts ? expert_groups_ : groups_;
  at::Tensor all = at::tensor(seen);
  for (const Group& group : {groups.shard, groups.replicate}) {
    all = all_reduce(all, on_lane(group, Lane::kReduce)).wait();
  }
  const auto* const first = all.const_data_ptr<int64_t>();
  return std::vector<bool>(first, first + all.numel());  // Not a list of two pointers.
}

}  // namespace tessera::fsdp::detail
