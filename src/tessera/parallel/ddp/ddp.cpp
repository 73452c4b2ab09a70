#include "tessera/parallel/ddp/ddp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/parallel/ddp/internal/bucket.h"
#include "tessera/parallel/ddp/internal/same_model.h"

namespace tessera {

using namespace ddp::detail;

namespace {

namespace autograd = torch::autograd;

constexpr int kNoPass = -1;  // The engine's number outside of a backward pass.

// A tensor that is listed under several names is reduced once.
NamedParameters trained_once(const NamedParameters& parameters) {
  NamedParameters trained;
  std::set<const at::TensorImpl*> known;
  for (const NamedParameter& parameter : parameters) {
    const bool is_new = known.insert(parameter.tensor.unsafeGetTensorImpl()).second;
    if (is_new && parameter.tensor.requires_grad()) trained.push_back(parameter);
  }
  return trained;
}

struct GradientHook : autograd::PostAccumulateGradHook {
  explicit GradientHook(std::function<void()> given) : callback(std::move(given)) {}
  void operator()(const autograd::Variable& /*parameter*/) override { callback(); }
  std::function<void()> callback;
};

}  // namespace

/// A reduction begins with the first gradient of a pass, or by start(); while it is open, buckets
/// start in one order on all ranks, each when it is complete; the end of the pass starts what is
/// left, and waits.
struct Ddp::State {
  State(const DdpTensors& tensors, const Group& given, const DdpOptions& options);
  State(const State&) = delete;
  ~State();

  bool is_alone() const { return group.size() == 1 || group.backend() == Backend::kFake; }
  at::ScalarType sum_dtype(size_t index) const;

  void on_gradient(size_t index);
  void on_end_of_pass();
  void watch_end_of_pass(const std::string& name);

  std::vector<size_t> agreed_order() const;
  void build_buckets();
  void add_bucket(const std::vector<size_t>& members, at::ScalarType dtype);
  void start_bucket() { buckets[num_started++].start(share, refusal, group); }
  void start_rest();
  void finish();
  void check_outcome(const std::string& own_refusal) const;

  const NamedParameters trained;
  const NamedParameters buffers;
  const Group group;
  const DdpOptions options;
  double share = 1;
  int num_pauses = 0;

  std::vector<DdpBucket> buckets;  // Made at the end of the first reduced pass.
  std::vector<size_t> bucket_of;   // By parameter.

  // Of the reduction that is open.
  std::vector<size_t> arrived;  // Parameters in the order in which they became ready.
  std::vector<bool> is_ready;
  size_t num_started = 0;
  std::string refusal;
  int watched_pass = kNoPass;
};

Ddp::State::State(const DdpTensors& tensors, const Group& given, const DdpOptions& options)
    : trained(trained_once(tensors.parameters)),
      buffers(tensors.buffers),
      group(on_lane(given, Lane::kReduce)),
      options(options),
      share(1.0 / static_cast<double>(given.size())),
      is_ready(trained.size()) {
  if (is_alone()) return;
  check_same_model(tensors, options, group);
  take_values_of_first(tensors.parameters, group);
  take_values_of_first(tensors.buffers, group);
  for (size_t i = 0; i < trained.size(); ++i) {
    autograd::impl::set_post_acc_grad_hooks(
        trained[i].tensor, std::make_unique<GradientHook>([this, i] { on_gradient(i); }));
  }
}

Ddp::State::~State() {
  if (is_alone()) return;
  for (const NamedParameter& parameter : trained) {
    autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
  }
}

at::ScalarType Ddp::State::sum_dtype(size_t index) const {
  return options.reduce_dtype.value_or(trained[index].tensor.scalar_type());
}

void Ddp::State::on_gradient(size_t index) {
  const auto& [name, tensor] = trained[index];
  // The engine also tells of gradients that are not there, such as deferred ones.
  if (!tensor.grad().defined()) return;
  DdpBucket* const bucket = buckets.empty() ? nullptr : &buckets[bucket_of[index]];
  if (bucket != nullptr && bucket->is_started()) {
    throw StateError(concat("parameter '", name,
                            "' got a gradient after its bucket was sent; hold no_sync() over all "
                            "passes that add to it, then call reduce()"));
  }
  if (num_pauses > 0) return;
  watch_end_of_pass(name);
  if (is_ready[index]) return;
  is_ready[index] = true;
  arrived.push_back(index);
  if (bucket == nullptr) return;  // The first pass only shows the order.
  bucket->count_ready();
  const at::NoGradGuard no_grad;
  while (num_started < buckets.size() && buckets[num_started].num_awaited() == 0) start_bucket();
}

void Ddp::State::watch_end_of_pass(const std::string& name) {
  const int pass = autograd::get_current_graph_task_id();
  if (pass == kNoPass) {
    throw StateError(concat("parameter '", name,
                            "' got a gradient outside of a backward pass, as deferred ones do; "
                            "hold no_sync() until all are there, then call reduce()"));
  }
  if (pass == watched_pass) return;
  watched_pass = pass;
  autograd::Engine::get_default_engine().queue_callback([this] { on_end_of_pass(); });
}

void Ddp::State::on_end_of_pass() {
  // A pass inside a node of another one, as recomputation makes them: more is to come.
  const bool is_nested = autograd::get_current_node() != nullptr;
  const bool is_complete = arrived.size() == trained.size();
  if (arrived.empty() || (is_nested && !is_complete)) return;
  start_rest();
  finish();
}

// What arrived first on rank 0 is first everywhere; what did not, in reverse of the registration.
std::vector<size_t> Ddp::State::agreed_order() const {
  std::vector<int64_t> order(arrived.begin(), arrived.end());
  for (size_t i = trained.size(); i-- > 0;) {
    if (!is_ready[i]) order.push_back(static_cast<int64_t>(i));
  }
  const auto device = trained[0].tensor.device();
  const at::Tensor agreed =
      broadcast(at::tensor(order, at::kLong).to(device), GroupRank{0}, group).wait().cpu();
  const auto* const begin = agreed.const_data_ptr<int64_t>();
  return {begin, begin + agreed.numel()};
}

void Ddp::State::add_bucket(const std::vector<size_t>& members, at::ScalarType dtype) {
  NamedParameters parameters;
  for (const size_t index : members) {
    bucket_of[index] = buckets.size();
    parameters.push_back(trained[index]);
  }
  buckets.emplace_back(std::move(parameters), dtype);
}

void Ddp::State::build_buckets() {
  struct Open {
    std::vector<size_t> members = {};
    int64_t bytes = 0;
  };
  std::map<at::ScalarType, Open> open;
  bucket_of.resize(trained.size());
  for (const size_t index : agreed_order()) {
    const at::ScalarType dtype = sum_dtype(index);
    Open& bucket = open[dtype];
    bucket.members.push_back(index);
    bucket.bytes += trained[index].tensor.numel() * static_cast<int64_t>(c10::elementSize(dtype));
    if (bucket.bytes < options.bucket_bytes) continue;
    add_bucket(bucket.members, dtype);
    bucket = {};
  }
  for (const auto& [dtype, bucket] : open) {
    if (!bucket.members.empty()) add_bucket(bucket.members, dtype);
  }
}

void Ddp::State::start_rest() {
  const at::NoGradGuard no_grad;
  if (buckets.empty()) build_buckets();
  while (num_started < buckets.size()) start_bucket();
}

void Ddp::State::finish() {
  const at::NoGradGuard no_grad;
  for (DdpBucket& bucket : buckets) bucket.finish();
  arrived.clear();
  is_ready.assign(trained.size(), false);
  num_started = 0;
  watched_pass = kNoPass;
  check_outcome(std::exchange(refusal, ""));
}

void Ddp::State::check_outcome(const std::string& own_refusal) const {
  const DdpBucket& last = buckets.back();
  TSR_CHECK(own_refusal.empty(), own_refusal);
  TSR_CHECK(last.num_refusals() == 0, "a gradient was refused on another rank of group ",
            group.name(), "; its message says which");
  const double sum = last.sum_of_shares();
  TSR_CHECK(std::abs(sum - 1) <= last.slack(), "the shares of the ranks of group ", group.name(),
            " add up to ", sum, ", not to 1; give each rank its rows over all rows");
}

Ddp::Ddp(const DdpTensors& tensors, const Group& group, const DdpOptions& options)
    : state_(std::make_shared<State>(tensors, group, options)) {}
Ddp::Ddp(Ddp&&) noexcept = default;
Ddp& Ddp::operator=(Ddp&&) noexcept = default;
Ddp::~Ddp() = default;

Ddp::NoSync::NoSync(std::shared_ptr<State> state) : state_(std::move(state)) {
  ++state_->num_pauses;
}
Ddp::NoSync::~NoSync() {
  if (state_) --state_->num_pauses;
}
Ddp::NoSync Ddp::no_sync() const {
  return NoSync(state_);
}

void Ddp::set_share(double share) const {
  TSR_CHECK(0 <= share && share <= 1, "a share of ", share,
            " was given; it is this rank's rows over all rows, from 0 to 1");
  TSR_CHECK(share == 1 || state_->group.size() > 1, "a share of ", share,
            " was given in a group of 1 rank, which has all rows; give 1");
  state_->share = share;
}

void Ddp::reduce() const {
  start_reduce();
  finish_reduce();
}

void Ddp::start_reduce() const {
  if (state_->is_alone() || state_->trained.empty()) return;
  if (!state_->buckets.empty() && state_->num_started == state_->buckets.size()) {
    throw StateError("a reduction is under way; call finish_reduce() before the next begins");
  }
  state_->start_rest();
}

void Ddp::finish_reduce() const {
  if (state_->is_alone() || state_->trained.empty()) return;
  if (state_->buckets.empty() || state_->num_started < state_->buckets.size()) {
    throw StateError("no reduction is under way; call start_reduce() first");
  }
  state_->finish();
}

void Ddp::broadcast_buffers() const {
  const at::NoGradGuard no_grad;
  if (!state_->is_alone()) take_values_of_first(state_->buffers, state_->group);
}

const Group& Ddp::group() const {
  return state_->group;
}

std::vector<std::vector<std::string>> Ddp::buckets() const {
  std::vector<std::vector<std::string>> names;
  for (const DdpBucket& bucket : state_->buckets) {
    names.emplace_back();
    for (const auto& [name, tensor] : bucket.parameters()) names.back().push_back(name);
  }
  return names;
}

}  // namespace tessera
