#include "tessera/parallel/ddp/internal/bucket.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/comm/buffers.h"
#include "tessera/comm/collectives.h"
#include "tessera/comm/host_numbers.h"
#include "tessera/tensor/copied_to.h"

namespace tessera::ddp::detail {
namespace {

// The numbers that follow those of the parameters.
enum Tail : size_t { kShare, kRefusals, kPassCodesBegin };

int64_t numel_of(const std::vector<const TrainedParameter*>& parameters) {
  int64_t numel = 0;
  for (const TrainedParameter* parameter : parameters) numel += parameter->original.numel();
  return numel;
}

// With the strides of the parameter if they are dense, as autograd and optimizers expect. Detached,
// because torch::optim refuses to clear views.
at::Tensor view_of(const at::Tensor& flat, int64_t begin, const at::Tensor& parameter) {
  if (!parameter.is_non_overlapping_and_dense()) {
    return flat.narrow(0, begin, parameter.numel()).view(parameter.sizes()).detach();
  }
  return flat.as_strided(parameter.sizes(), parameter.strides(), begin).detach();
}

}  // namespace

bool TrainedParameter::is_changed() const {
  return replaced || tensor.sizes() != original.sizes() ||
         tensor.scalar_type() != original.scalar_type() || tensor.device() != original.device();
}

DdpBucket::DdpBucket(std::vector<const TrainedParameter*> parameters, at::ScalarType dtype,
                     const Group& group)
    : parameters_(std::move(parameters)), group_(group), num_awaited_(parameters_.size()) {
  const int64_t numel = numel_of(parameters_);
  const int64_t num_numbers =
      static_cast<int64_t>(parameters_.size() + kPassCodesBegin) + group.size();
  flat_ =
      empty_buffer({numel + num_numbers}, parameters_[0]->original.options().dtype(dtype), group);
  tail_ = flat_.narrow(0, numel, num_numbers);
  int64_t begin = 0;
  for (const TrainedParameter* parameter : parameters_) {
    views_.push_back(view_of(flat_, begin, parameter->original));
    begin += parameter->original.numel();
  }
}

bool DdpBucket::has_views(size_t index) const {
  return parameters_[index]->original.scalar_type() == flat_.scalar_type();
}

// Whether there was a gradient to take.
bool DdpBucket::take(size_t index, double share) {
  const TrainedParameter& parameter = *parameters_[index];
  at::Tensor& gradient = parameter.tensor.mutable_grad();
  at::Tensor& view = views_[index];
  if (!gradient.defined() || gradient.layout() != at::kStrided || parameter.is_changed()) {
    view.zero_();
    return false;
  }
  if (!has_views(index)) {
    view.copy_(gradient).mul_(share);  // Scaled in the dtype of the sum.
    return true;
  }
  at::mul_out(view, gradient, at::scalar_tensor(share, at::kDouble));
  gradient = view;
  return true;
}

void DdpBucket::start(RankReport& report) {
  std::vector<double> numbers;
  present_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const TrainedParameter& parameter = *parameters_[i];
    present_.push_back(take(i, report.share));
    numbers.push_back(present_.back() ? 1 : 0);
    if (parameter.is_changed()) {
      numbers.back() = -2.0 * static_cast<double>(group_.size());  // Stays negative in any sum.
      report.refusal = concat("parameter '", parameter.name, "' was replaced");
    } else if (!present_.back() && parameter.tensor.grad().defined()) {
      report.refusal =
          concat("the gradient of parameter '", parameter.name, "' is of layout ",
                 parameter.tensor.grad().layout(), "; only dense gradients are reduced");
    }
  }
  numbers.push_back(report.share);
  numbers.push_back(report.refusal.empty() ? 0 : 1);
  numbers.resize(numbers.size() + static_cast<size_t>(group_.size()));
  const auto own = parameters_.size() + kPassCodesBegin + static_cast<size_t>(group_.rank().value);
  numbers[own] = static_cast<double>(to_code(report.pass));
  tail_.copy_(copied_to(tail_.device(), at::tensor(numbers, at::kDouble)));
  work_.emplace(all_reduce(flat_, group_));
}

// If this rank has no gradient, it gets the sum of the others, if there is one.
void DdpBucket::give(size_t index, double num_gradients) const {
  const at::Tensor& parameter = parameters_[index]->tensor;
  at::Tensor& gradient = parameter.mutable_grad();
  if (present_[index]) {
    if (!has_views(index)) gradient.copy_(views_[index]);
  } else if (num_gradients > 0) {
    gradient = has_views(index) ? views_[index] : views_[index].to(parameter.scalar_type());
  }
}

void DdpBucket::finish() {
  (void)std::move(*work_).wait();
  work_.reset();
  num_awaited_ = parameters_.size();
  // Read the numbers only if needed: on a GPU that waits for the sums.
  const bool all_present = std::ranges::all_of(present_, std::identity());
  const std::vector<double> numbers =
      all_present ? std::vector<double>(parameters_.size(), 1) : tail();
  for (size_t i = 0; i < parameters_.size(); ++i) give(i, numbers[i]);
}

std::vector<double> DdpBucket::tail() const {
  return HostNumbers(tail_, group_).wait("the sums of gradients");
}

DdpBucket::Outcome DdpBucket::outcome() const {
  const std::vector<double> numbers = tail();
  const auto* const common = numbers.data() + parameters_.size();
  const auto* const codes = common + kPassCodesBegin;
  return {.sum_of_shares = common[kShare],
          .num_refusals = static_cast<int64_t>(common[kRefusals]),
          .pass_codes = {codes, codes + group_.size()}};
}

double DdpBucket::slack() const {
  return c10::elementSize(flat_.scalar_type()) < c10::elementSize(at::kFloat) ? 1e-2 : 1e-5;
}

const TrainedParameter* DdpBucket::first_changed() const {
  const std::vector<double> numbers = tail();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (numbers[i] < 0) return parameters_[i];
  }
  return nullptr;
}

}  // namespace tessera::ddp::detail
