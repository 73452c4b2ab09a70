#include "tessera/parallel/ddp/ddp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_set>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/groups.h"
#include "tessera/hook/gradient_hook.h"
#include "tessera/parallel/ddp/internal/backward_passes.h"
#include "tessera/parallel/ddp/internal/bucket.h"
#include "tessera/parallel/ddp/internal/report_exchange.h"
#include "tessera/parallel/ddp/internal/same_model.h"

namespace tessera {

using namespace ddp::detail;

namespace {

namespace autograd = torch::autograd;

constexpr int kNoPass = -1;               // The engine's task id outside of a backward pass.
constexpr double kShareTolerance = 1e-5;  // Programs may compute shares in float32.

// A tensor with several names is reduced once.
std::vector<TrainedParameter> trained_once(const Parameters& parameters) {
  std::vector<TrainedParameter> trained;
  std::set<const at::TensorImpl*> known;
  for (const Parameter& parameter : parameters) {
    const bool is_new = known.insert(parameter.tensor.unsafeGetTensorImpl()).second;
    if (is_new && parameter.tensor.requires_grad())
      trained.push_back(
          {parameter.name, parameter.tensor, parameter.tensor.detach(), trained.size()});
  }
  return trained;
}

using Identities = std::unordered_set<const at::TensorImpl*>;

Identities identities_of(const Leaves& leaves) {
  Identities known;
  for (const at::Tensor& leaf : leaves) known.insert(leaf.unsafeGetTensorImpl());
  return known;
}

// Whether `leaf` may have replaced `parameter`: it has the same form and belongs to no other
// strategy.
bool can_replace(const at::Tensor& leaf, const TrainedParameter& parameter) {
  const at::Tensor& original = parameter.original;
  return leaf.sizes() == original.sizes() && leaf.scalar_type() == original.scalar_type() &&
         leaf.device() == original.device() && !autograd::impl::post_acc_grad_hooks(leaf);
}

// "rank 1", "ranks 1, 3", "ranks 1, 3, 5 and 9 more".
std::string text_of(const RankGroup& ranks) {
  constexpr size_t kShown = 3;
  const size_t shown = std::min(ranks.size(), kShown);
  return concat(ranks.size() > 1 ? "ranks " : "rank ", join(std::span(ranks).first(shown), ", "),
                shown < ranks.size() ? concat(" and ", ranks.size() - shown, " more") : "");
}

std::string fix_of(const Group& group) {
  return concat("; catch the error on every rank of group ", group.name(),
                ", call Ddp::recover() on all of them, and repeat the step");
}

}  // namespace

/// A reduction begins with the first gradient of a pass, or with start_reduce(). Then each bucket
/// starts when it is complete, in the same order on all ranks. The end of the pass starts the
/// remaining buckets, exchanges the reports of the ranks and waits for all.
///
/// A rank whose pass failed must still take part in the reduction of the others. It does so at its
/// next call and marks its part as failed. The others then get an error in their current pass, and
/// all ranks have done the same reductions.
struct Ddp::State {
  State(const DdpTensors& tensors, const Group& given, const DdpOptions& options);
  State(const State&) = delete;
  ~State();

  bool is_alone() const { return group.size() == 1 || group.backend() == Backend::kFake; }
  bool reduces() const { return !is_alone() && !trained.empty(); }
  at::ScalarType sum_dtype(size_t index) const;

  void on_gradient(size_t index);
  void on_end_of_pass();
  void watch_end_of_pass(const std::string& name);
  void on_failed_pass(const Leaves& leaves, const std::string& error);

  /// Throws StateError after a failed pass, once the other ranks know of it.
  void check_usable();
  void tell_failure();
  void recover();

  std::vector<size_t> agreed_order() const;
  void build_buckets();
  void add_bucket(const std::vector<size_t>& members, at::ScalarType dtype);
  void start_bucket();
  void start_rest();
  bool all_started() const { return exchange.has_value(); }
  struct EndedPass {
    int64_t number = 0;
    std::string refusal = "";  // This rank's.
    GroupReport said = {};
  };
  /// On return, every rank has started all of this reduction, and the gradients are the sums.
  EndedPass wait_for_sums();
  GroupReport take_sums();
  void find_replaced();
  void check_outcome(const EndedPass& ended);
  void check_passes(int64_t own, const GroupReport& said);
  [[noreturn]] void refuse(const EndedPass& ended) const;

  std::vector<TrainedParameter> trained;
  const Parameters buffers;
  const Group group;
  const DdpOptions options;
  RankReport report;
  int num_pauses = 0;
  std::string failure;           // Why nothing is reduced until recover(); "" if nothing failed.
  bool is_failure_told = false;  // Whether the other ranks know of it.
  bool is_refused = false;       // The ending pass throws the same error on all ranks.

  std::vector<DdpBucket> buckets;  // Made at the end of the first reduced pass.
  std::vector<size_t> bucket_of;   // By parameter.

  // State of the current reduction.
  std::vector<size_t> arrived;  // Parameters in the order in which they became ready.
  std::vector<bool> is_ready;
  size_t num_started = 0;
  std::optional<ReportExchange> exchange;  // Starts after the last bucket.
  int watched_pass = kNoPass;

  std::optional<FailedPassObserver> observer;  // Last member: it is destroyed first.
};

Ddp::State::State(const DdpTensors& tensors, const Group& given, const DdpOptions& options)
    : trained(trained_once(tensors.parameters)),
      buffers(tensors.buffers),
      group(on_lane(given, Lane::kReduce)),
      options(options),
      report{.share = 1.0 / static_cast<double>(given.size()),
             .present = std::vector<bool>(trained.size()),
             .replaced = std::vector<bool>(trained.size())},
      is_ready(trained.size()) {
  if (is_alone()) return;
  check_same_model(tensors, options, group);
  take_values_of_first(tensors.parameters, group);
  take_values_of_first(tensors.buffers, group);
  for (size_t i = 0; i < trained.size(); ++i) {
    set_gradient_hook(trained[i].tensor, [this, i] { on_gradient(i); });
  }
  observer.emplace(
      [this](const Leaves& leaves, const std::string& error) { on_failed_pass(leaves, error); });
}

Ddp::State::~State() {
  if (is_alone()) return;
  for (const TrainedParameter& parameter : trained) {
    set_gradient_hook(parameter.tensor, {});
  }
}

at::ScalarType Ddp::State::sum_dtype(size_t index) const {
  return options.reduce_dtype.value_or(trained[index].original.scalar_type());
}

void Ddp::State::on_gradient(size_t index) {
  check_usable();
  const std::string& name = trained[index].name;
  // The engine also calls the hook without a gradient, e.g. if it is deferred.
  if (!trained[index].tensor.grad().defined()) return;
  DdpBucket* const bucket = buckets.empty() ? nullptr : &buckets[bucket_of[index]];
  if (bucket != nullptr && bucket->is_started()) {
    throw StateError(concat("parameter '", name,
                            "' got a gradient after its bucket was sent; hold no_sync() during all "
                            "passes that add to it, then call reduce()"));
  }
  if (num_pauses > 0) return;
  watch_end_of_pass(name);
  if (is_ready[index]) return;
  is_ready[index] = true;
  arrived.push_back(index);
  if (bucket == nullptr) return;  // The first pass only finds the order.
  bucket->count_ready();
  const at::NoGradGuard no_grad;
  // The last bucket waits for the end of the pass, so that a failed pass is complete on no rank.
  while (num_started + 1 < buckets.size() && buckets[num_started].num_awaited() == 0) {
    start_bucket();
  }
}

void Ddp::State::watch_end_of_pass(const std::string& name) {
  const int pass = autograd::get_current_graph_task_id();
  if (pass == kNoPass) {
    throw StateError(concat("parameter '", name,
                            "' got a gradient outside of a backward pass, e.g. a deferred one; "
                            "hold no_sync() until all gradients are there, then call reduce()"));
  }
  if (pass == watched_pass) return;
  watched_pass = pass;
  autograd::Engine::get_default_engine().queue_callback([this] { on_end_of_pass(); });
}

void Ddp::State::on_end_of_pass() {
  // A pass nested in a node of another one, e.g. by recomputation: more gradients will follow.
  const bool is_nested = autograd::get_current_node() != nullptr;
  const bool is_complete = arrived.size() == trained.size();
  if (arrived.empty() || (is_nested && !is_complete)) return;
  if (!is_complete) find_replaced();
  start_rest();
  const EndedPass ended = wait_for_sums();
  is_refused = true;
  check_outcome(ended);
  is_refused = false;
}

void Ddp::State::on_failed_pass(const Leaves& leaves, const std::string& error) {
  const bool all_know = std::exchange(is_refused, false) || !failure.empty();
  const Identities reached = identities_of(leaves);
  const auto is_reached = [&](const TrainedParameter& parameter) {
    return reached.contains(parameter.tensor.unsafeGetTensorImpl());
  };
  if (all_know || std::ranges::none_of(trained, is_reached)) return;
  failure = concat("backward pass ", report.pass, " failed on this rank (", error, ")");
  is_failure_told = false;
}

// A parameter was replaced if it got no gradient, but an unknown tensor of the same form did.
void Ddp::State::find_replaced() {
  Identities known;
  for (const TrainedParameter& parameter : trained) {
    known.insert(parameter.tensor.unsafeGetTensorImpl());
  }
  for (const Leaves& leaves : leaves_of_passes_in_flight()) {
    Leaves unknown = leaves;
    std::erase_if(unknown, [&](const auto& t) { return known.contains(t.unsafeGetTensorImpl()); });
    const bool is_other_models = unknown.size() == leaves.size();
    if (is_other_models || unknown.empty()) continue;
    const Identities reached = identities_of(leaves);
    for (const TrainedParameter& parameter : trained) {
      if (is_ready[parameter.index]) continue;
      if (reached.contains(parameter.tensor.unsafeGetTensorImpl())) continue;
      const auto can = [&](const at::Tensor& leaf) { return can_replace(leaf, parameter); };
      if (std::ranges::any_of(unknown, can)) report.replaced[parameter.index] = true;
    }
  }
}

void Ddp::State::check_usable() {
  if (failure.empty()) return;
  tell_failure();
  throw StateError(concat(failure, fix_of(group)));
}

void Ddp::State::tell_failure() {
  if (std::exchange(is_failure_told, true)) return;
  // The buckets of start_reduce() belong to a separate reduction, which the other ranks do as well.
  if (all_started()) (void)wait_for_sums();
  report.failed = true;
  start_rest();
  (void)wait_for_sums();
}

void Ddp::State::recover() {
  if (!failure.empty()) tell_failure();
  if (num_started > 0) {
    throw StateError("a reduction is in flight; call finish_reduce() before recover()");
  }
  const at::Tensor number = at::scalar_tensor(report.pass, at::kLong);
  report.pass = all_reduce(number, group, ReduceOp::kMax).wait().item<int64_t>();
  report.failed = false;
  failure.clear();
  is_failure_told = false;
  for (const TrainedParameter& parameter : trained) parameter.tensor.mutable_grad().reset();
}

// The order in which gradients became ready on rank 0; then the rest, in reverse registration
// order.
std::vector<size_t> Ddp::State::agreed_order() const {
  std::vector<int64_t> order(arrived.begin(), arrived.end());
  for (size_t i = trained.size(); i-- > 0;) {
    if (!is_ready[i]) order.push_back(static_cast<int64_t>(i));
  }
  const at::Tensor agreed = broadcast(at::tensor(order, at::kLong), GroupRank{0}, group).wait();
  const auto* const begin = agreed.const_data_ptr<int64_t>();
  return {begin, begin + agreed.numel()};
}

void Ddp::State::add_bucket(const std::vector<size_t>& members, at::ScalarType dtype) {
  std::vector<const TrainedParameter*> parameters;
  for (const size_t index : members) {
    bucket_of[index] = buckets.size();
    parameters.push_back(&trained[index]);
  }
  buckets.emplace_back(std::move(parameters), dtype, group);
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
    bucket.bytes += trained[index].original.numel() * static_cast<int64_t>(c10::elementSize(dtype));
    if (bucket.bytes < options.bucket_bytes) continue;
    add_bucket(bucket.members, dtype);
    bucket = {};
  }
  for (const auto& [dtype, bucket] : open) {
    if (!bucket.members.empty()) add_bucket(bucket.members, dtype);
  }
}

// Counts it only if it has started, so that tell_failure() can try again.
void Ddp::State::start_bucket() {
  buckets[num_started].start(report);
  ++num_started;
}

void Ddp::State::start_rest() {
  const at::NoGradGuard no_grad;
  if (buckets.empty()) build_buckets();
  while (num_started < buckets.size()) start_bucket();
  if (!exchange) exchange.emplace(report, group);
}

GroupReport Ddp::State::take_sums() {
  for (DdpBucket& bucket : buckets) bucket.wait();
  GroupReport said = std::move(*exchange).wait();
  exchange.reset();
  for (const DdpBucket& bucket : buckets) bucket.give(report, said);
  return said;
}

Ddp::State::EndedPass Ddp::State::wait_for_sums() {
  const at::NoGradGuard no_grad;
  GroupReport said;
  try {
    said = take_sums();
  } catch (const std::exception& error) {
    failure = error.what();
    is_failure_told = true;  // The group is lost: the other ranks cannot be reached.
    throw;
  }
  arrived.clear();
  is_ready.assign(trained.size(), false);
  num_started = 0;
  watched_pass = kNoPass;
  report.replaced.assign(trained.size(), false);
  return {report.pass++, std::exchange(report.refusal, ""), std::move(said)};
}

void Ddp::State::check_outcome(const EndedPass& ended) {
  check_passes(ended.number, ended.said);
  if (ended.said.refused) refuse(ended);
  const double sum = ended.said.sum_of_shares;
  TSR_CHECK(std::abs(sum - 1) <= kShareTolerance, "the shares of the ranks of group ", group.name(),
            " add up to ", sum, ", not to 1; set each rank's share to its rows / all rows");
}

void Ddp::State::check_passes(int64_t own, const GroupReport& said) {
  RankGroup failed;
  std::map<int64_t, RankGroup> ranks_in;
  for (size_t i = 0; i < said.passes.size(); ++i) {
    if (said.failed[i]) failed.push_back(group.ranks()[i]);
    ranks_in[said.passes[i]].push_back(group.ranks()[i]);
  }
  if (failed.empty() && ranks_in.size() == 1) return;
  std::vector<std::string> passes;
  for (const auto& [pass, ranks] : ranks_in) {
    passes.push_back(concat(text_of(ranks), " in pass ", pass));
  }
  failure = failed.empty() ? concat("the ranks of group ", group.name(),
                                    " are in different passes: ", join(passes, "; "),
                                    ". One rank has skipped or repeated a pass")
                           : concat("the gradients of backward pass ", own,
                                    " are incomplete: a backward pass failed on ", text_of(failed));
  is_failure_told = true;
  throw CommError(concat(failure, fix_of(group)));
}

void Ddp::State::refuse(const EndedPass& ended) const {
  const auto& replaced = ended.said.replaced;
  const auto first = std::ranges::find(replaced, true);
  if (first != replaced.end()) {
    const TrainedParameter& parameter = trained[static_cast<size_t>(first - replaced.begin())];
    throw StateError(
        concat("parameter '", parameter.name, "' was replaced before pass ", ended.number,
               " on at least one rank of group ", group.name(),
               ", so its gradient is not reduced; construct Ddp again after parameters "
               "are replaced"));
  }
  TSR_CHECK(ended.refusal.empty(), ended.refusal);
  throw ConfigError(concat("another rank of group ", group.name(),
                           " refused a gradient; see the error of that rank"));
}

Ddp::Ddp(const DdpTensors& tensors, const Group& group, const DdpOptions& options)
    : state_(std::make_shared<State>(tensors, group, options)) {}
Ddp::Ddp(Ddp&&) noexcept = default;
Ddp& Ddp::operator=(Ddp&&) noexcept = default;
Ddp::~Ddp() = default;

Ddp::State& Ddp::state() const {
  if (!state_) throw StateError("this Ddp was moved from; use the one it was moved to");
  return *state_;
}

NoSync Ddp::no_sync() const {
  return NoSync({state_, &state().num_pauses});
}

void Ddp::set_share(double share) const {
  TSR_CHECK(0 <= share && share <= 1, "share must be from 0 to 1, but is ", share,
            "; pass this rank's rows / all rows");
  TSR_CHECK(share == 1 || group().size() > 1, "share must be 1 in a group of 1 rank, but is ",
            share);
  state().report.share = share;
}

void Ddp::set_pass(int64_t number) const {
  TSR_CHECK(number >= 0, "the pass number must be ≥ 0, but is ", number, "; pass the step number");
  state().report.pass = number;
}

void Ddp::recover() const {
  if (!state().reduces()) return;
  state().recover();
}

void Ddp::reduce() const {
  start_reduce();
  finish_reduce();
}

void Ddp::start_reduce() const {
  State& state = this->state();
  if (!state.reduces()) return;
  state.check_usable();
  if (state.all_started()) {
    throw StateError("a reduction is in flight; call finish_reduce() before starting another");
  }
  state.start_rest();
}

void Ddp::finish_reduce() const {
  State& state = this->state();
  if (!state.reduces()) return;
  state.check_usable();
  if (!state.all_started()) {
    throw StateError("no reduction is in flight; call start_reduce() first");
  }
  state.check_outcome(state.wait_for_sums());
}

void Ddp::broadcast_buffers() const {
  State& state = this->state();
  if (state.is_alone()) return;
  state.check_usable();
  const at::NoGradGuard no_grad;
  take_values_of_first(state.buffers, state.group);
}

const Group& Ddp::group() const {
  return state().group;
}

std::vector<std::vector<std::string>> Ddp::buckets() const {
  std::vector<std::vector<std::string>> names;
  for (const DdpBucket& bucket : state().buckets) {
    names.emplace_back();
    for (const TrainedParameter* parameter : bucket.parameters()) {
      names.back().push_back(parameter->name);
    }
  }
  return names;
}

}  // namespace tessera
