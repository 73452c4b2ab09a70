#include "tessera/parallel/fsdp/fully_shard.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/hook/storage_reads.h"
#include "tessera/parallel/fsdp/internal/module_units.h"
#include "tessera/parallel/fsdp/internal/sharded_units.h"
#include "tessera/parallel/fsdp/internal/unit_order.h"
#include "tessera/tensor/unallocated.h"

namespace tessera {

using namespace fsdp::detail;

namespace {

namespace autograd = torch::autograd;

constexpr int kNoPass = -1;  // The engine's task id outside of a backward pass.
constexpr const char* kRefused = "fully_shard was refused on another rank";
constexpr const char* kChanged =
    "the module's parameters were changed after fully_shard(); shard it when it is complete";

/// One of the module's parameters, as it was when it was sharded.
struct FullParameter {
  std::string name;
  at::Tensor tensor;
  bool is_trained = false;
};

FsdpGroups groups_of(const DeviceMesh& mesh) {
  TSR_CHECK(
      mesh.ndim() == 1 || mesh.ndim() == 2, "fully_shard needs a mesh with one axis (shards) ",
      "or two (replicas, shards), but has ", mesh.to_string(), "; slice or flatten the mesh first");
  TSR_CHECK(mesh.is_member(), "rank ", mesh.get_rank(), " is not in the mesh of fully_shard, ",
            mesh.to_string(), "; call it on ranks of the mesh");
  const Group shard = mesh.get_group(mesh.ndim() - 1);
  return {.shard = shard, .replicate = mesh.ndim() == 2 ? mesh.get_group(0) : neighbours(shard, 1)};
}

// One buffer per dtype, and one for what is not trained: it has no gradients to reduce.
void place(Parameters& parameters, const FsdpGroups& groups, const std::string& axis) {
  std::map<std::string, std::vector<Parameter*>> by_buffer;
  for (Parameter& parameter : parameters) {
    parameter.place.buffer =
        concat(parameter.tensor.scalar_type(), parameter.tensor.requires_grad() ? "" : " frozen");
    by_buffer[parameter.place.buffer].push_back(&parameter);
  }
  for (auto& [buffer, members] : by_buffer) {
    std::vector<Part> parts;
    for (const Parameter* const member : members) parts.push_back(member->place.part);
    parts = cut_flat(parts, groups.shard.size(), groups.shard.rank().value);
    for (size_t i = 0; i < members.size(); ++i) {
      members[i]->place.part = parts[i];
      members[i]->place.cut_over = {axis};
    }
  }
}

void take_values_of_first(const at::Tensor& tensor, const FsdpGroups& groups) {
  if (is_unallocated(tensor)) return;
  const at::NoGradGuard no_grad;
  for (const Group& group : {groups.replicate, groups.shard}) {
    tensor.copy_(broadcast(tensor.detach().clone(), GroupRank{0}, group).wait());
  }
}

// A rank may hold no element of a parameter.
void check_filled(const Parameters& parameters, const Group& shards) {
  const auto empty = std::ranges::find_if(
      parameters, [](const Parameter& parameter) { return is_unallocated(parameter.tensor); });
  throw_together(shards, "set FullyShardOptions::fill: there are parameters without values",
                 empty == parameters.end()
                     ? ""
                     : concat("has parameter '", empty->name, "', which was built without memory"));
}

}  // namespace

struct ShardedModule::State {
  State(torch::nn::Module& module, const DeviceMesh& mesh, const FullyShardOptions& options);

  void add_units(torch::nn::Module& module, const FullyShardOptions& options,
                 const std::string& axis);
  void watch();

  void on_reads(const std::vector<size_t>& flats);
  void read_in_forward(const std::vector<size_t>& read);
  void read_in_backward(const std::vector<size_t>& read);
  void leave(size_t unit, bool in_forward);
  void begin_step();
  void enter_backward();
  void end_backward();
  void forget_step();
  void forget_failed_pass();
  void watch_updates();

  bool is_running(const std::vector<size_t>& read) const;
  bool is_root(size_t unit) const { return units[unit].name.empty(); }
  bool reduces() const { return num_no_sync == 0; }
  std::string complaint() const;
  void check_module() const;

  std::weak_ptr<torch::nn::Module> module;
  std::vector<FullParameter> full = {};
  ShardedUnits units;
  UnitOrder forward_order = {};
  UnitOrder backward_order = {};
  Parameters parameters = {};
  std::vector<size_t> unit_of_flat = {};
  std::vector<size_t> running = {};  // The units that were read last.
  /// The backward pass under way, the outermost; the engine drops it at its end, or if it fails.
  std::optional<std::weak_ptr<const void>> pass = std::nullopt;
  bool in_step = false;
  bool is_unsharded = false;  // From unshard() until reshard() or a backward pass.
  int num_no_sync = 0;
  int64_t num_reduced = 0;                             // Backward passes.
  std::optional<double> sum_of_shards = std::nullopt;  // Some passes ago.
  std::optional<StorageReads> reads = std::nullopt;
};

ShardedModule::State::State(torch::nn::Module& given, const DeviceMesh& mesh,
                            const FullyShardOptions& options)
    : module(given.weak_from_this()), units(groups_of(mesh), options.fsdp) {
  TSR_CHECK(options.fsdp.when == ShardTime::kPerUnit,
            "fully_shard gathers unit by unit; leave FsdpOptions::when at kPerUnit");
  units.set_share(1 / static_cast<double>(mesh.size()));
  add_units(given, options, mesh.axis_names().back());
  watch();
}

void ShardedModule::State::add_units(torch::nn::Module& given, const FullyShardOptions& options,
                                     const std::string& axis) {
  const FsdpGroups& groups = units.groups();
  std::vector<ModuleUnit> found;
  Parameters all;
  std::vector<std::string> description;
  std::string complaint;
  try {
    found = units_of(given, options);
  } catch (const ConfigError& error) {
    complaint = error.what();
  }
  check_both(groups, [&](const Group& group) {
    throw_together(group, "fully_shard cannot find its units", complaint);
  });
  for (const ModuleUnit& unit : found) {
    std::ranges::copy(unit.parameters, std::back_inserter(all));
    std::ranges::copy(describe(unit.name, unit.parameters), std::back_inserter(description));
  }
  check_alike(groups, description, first_sharded(all));
  for (const Parameter& parameter : all) {
    full.push_back({parameter.name, parameter.tensor, parameter.tensor.requires_grad()});
    take_values_of_first(parameter.tensor, groups);
  }
  for (const auto& buffer : given.buffers()) take_values_of_first(buffer, groups);
  for (ModuleUnit& unit : found) {
    place(unit.parameters, groups, axis);
    units.add(unit.name, unit.parameters);
    std::ranges::copy(unit.parameters, std::back_inserter(parameters));
  }
  check_together(groups.shard, kRefused, [&] {
    if (options.fill) options.fill(parameters);
  });
  check_filled(parameters, groups.shard);
  units.start();
}

void ShardedModule::State::watch() {
  std::vector<at::Tensor> flats;
  for (size_t i = 0; i < units.size(); ++i) {
    for (const FlatShard& shard : units[i].shards) {
      flats.push_back(shard.flat());
      unit_of_flat.push_back(i);
    }
  }
  reads.emplace(flats, [this](const std::vector<size_t>& read) { on_reads(read); });
  units.observe([this] { enter_backward(); });
}

void ShardedModule::State::on_reads(const std::vector<size_t>& flats) {
  if (is_unsharded) return;
  std::vector<size_t> read;
  for (const size_t flat : flats) read.push_back(unit_of_flat[flat]);
  std::ranges::sort(read);
  read.erase(std::ranges::unique(read).begin(), read.end());
  if (autograd::get_current_graph_task_id() == kNoPass) {
    read_in_forward(read);
  } else {
    read_in_backward(read);
  }
}

void ShardedModule::State::read_in_forward(const std::vector<size_t>& read) {
  if (pass) forget_failed_pass();
  const bool has_backward = at::GradMode::is_enabled();
  if (has_backward && !in_step) begin_step();
  if (is_running(read)) return;
  for (const size_t unit : running) {
    if (std::ranges::find(read, unit) == read.end()) leave(unit, /*in_forward=*/true);
  }
  for (const size_t unit : read) units.gather(unit);
  running = read;
  for (const size_t unit : read) {
    if (const auto next = forward_order.next(unit, has_backward)) units.prefetch(*next);
  }
}

void ShardedModule::State::read_in_backward(const std::vector<size_t>& read) {
  enter_backward();
  if (is_running(read)) return;
  for (const size_t unit : running) {
    if (std::ranges::find(read, unit) == read.end()) leave(unit, /*in_forward=*/false);
  }
  for (const size_t unit : read) units.before_backward(unit);
  running = read;
  for (const size_t unit : read) {
    if (const auto next = backward_order.next(unit)) units.prefetch(*next);
  }
}

// A unit may have been freed since, when its gradients were complete, or have new values.
bool ShardedModule::State::is_running(const std::vector<size_t>& read) const {
  return read == running &&
         std::ranges::all_of(read, [&](size_t unit) { return units.is_gathered(unit); });
}

// In a backward pass, units are freed when their gradients are complete; others have none.
void ShardedModule::State::leave(size_t unit, bool in_forward) {
  if (is_root(unit)) return;
  if (in_forward) {
    units.after_forward(unit, {.has_backward = at::GradMode::is_enabled()});
    return;
  }
  if (units[unit].trained.empty()) units.free(unit);
}

void ShardedModule::State::begin_step() {
  check_module();
  in_step = true;
  running.clear();
}

void ShardedModule::State::enter_backward() {
  if (pass && pass->expired()) forget_failed_pass();
  if (pass) return;
  is_unsharded = false;
  const auto begun = std::make_shared<const bool>(true);
  pass = begun;
  running.clear();
  units.begin_backward(reduces());
  autograd::Engine::get_default_engine().queue_callback([this, begun] { end_backward(); });
}

// Checks again: if all parameters were replaced, nothing has read a sharded one until now.
void ShardedModule::State::end_backward() {
  const UnwatchedReads unwatched;
  check_module();
  units.finish(reduces());
  if (reduces()) watch_updates();
  forward_order.end_step();
  backward_order.end_step();
  forget_step();
}

// An optimizer of the module's own parameters changes nothing: their gradients are in the shards.
void ShardedModule::State::watch_updates() {
  constexpr int64_t kPasses = 100;  // More than anybody accumulates.
  if (++num_reduced % kPasses != 0 || num_reduced > 2 * kPasses) return;
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const Parameter& parameter : parameters) {
    if (parameter.tensor.requires_grad()) sum += parameter.tensor.detach().sum(at::kDouble).cpu();
  }
  const bool is_same = sum_of_shards == sum.item<double>();
  sum_of_shards = sum.item<double>();
  const auto& [shard, replicate] = units.groups();
  const bool is_first = shard.rank().value == 0 && replicate.rank().value == 0;
  if (!is_same || !is_first) return;
  std::cerr << concat("tessera: the shards of the module have not changed in ", kPasses,
                      " backward passes; give the optimizer ShardedModule::parameters(), not the "
                      "module's own\n");
}

void ShardedModule::State::forget_step() {
  running.clear();
  pass.reset();
  in_step = false;
}

void ShardedModule::State::forget_failed_pass() {
  units.drop_gradients();
  forget_step();
}

// What is wrong with the module now, "" if nothing is.
std::string ShardedModule::State::complaint() const {
  std::set<const c10::TensorImpl*> now;
  const auto alive = module.lock();  // Null for a module that no shared pointer owns.
  for (const at::Tensor& tensor : alive ? alive->parameters() : std::vector<at::Tensor>()) {
    now.insert(tensor.unsafeGetTensorImpl());
  }
  for (const auto& [name, tensor, is_trained] : full) {
    const bool is_there = !alive || now.contains(tensor.unsafeGetTensorImpl());
    if (!is_there || !FlatShard::has(tensor)) {
      return concat("parameter '", name, "' is another tensor than before");
    }
    if (tensor.requires_grad() && !is_trained) {
      return concat("parameter '", name, "' was frozen before and is not now");
    }
  }
  return "";
}

// The ranks compare notes before the first gather: with another parameter, a rank might wait in
// another one.
void ShardedModule::State::check_module() const {
  const FsdpGroups& groups = units.groups();
  const auto sum = [](const at::Tensor& own, const Group& group) {
    return all_reduce(own, on_lane(group, Lane::kReduce)).wait();
  };
  const double wrong = complaint().empty() ? 0 : 1;
  const at::Tensor here = sum(at::scalar_tensor(wrong, at::kDouble), groups.shard);
  if (sum(here, groups.replicate).item<double>() == 0) return;
  if (here.item<double>() > 0) throw_together(groups.shard, kChanged, complaint());
  throw ConfigError(concat(kChanged, " on a rank of another replica"));
}

ShardedModule::ShardedModule(std::shared_ptr<State> state) : state_(std::move(state)) {}
ShardedModule::ShardedModule(ShardedModule&&) noexcept = default;
ShardedModule& ShardedModule::operator=(ShardedModule&&) noexcept = default;
ShardedModule::~ShardedModule() = default;

const Parameters& ShardedModule::parameters() const& {
  return state_->parameters;
}

Parameters ShardedModule::parameters() && {
  return state_->parameters;
}

std::vector<std::string> ShardedModule::units() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < state_->units.size(); ++i) names.push_back(state_->units[i].name);
  return names;
}

const Group& ShardedModule::shards() const {
  return state_->units.groups().shard;
}

NoSync ShardedModule::no_sync() const {
  return NoSync({state_, &state_->num_no_sync});
}

void ShardedModule::set_share(double share) const {
  state_->units.set_share(share);
}

void ShardedModule::unshard() const {
  const UnwatchedReads unwatched;
  for (size_t i = 0; i < state_->units.size(); ++i) state_->units.gather(i);
  state_->is_unsharded = true;
}

void ShardedModule::reshard() const {
  state_->is_unsharded = false;
  state_->units.free_all();
  state_->units.begin();
  state_->forget_step();
}

ShardedModule fully_shard(torch::nn::Module& module, const DeviceMesh& mesh,
                          const FullyShardOptions& options) {
  return ShardedModule(std::make_shared<ShardedModule::State>(module, mesh, options));
}

}  // namespace tessera
