#include "tessera/parallel/ddp/internal/bucket.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include "tessera/base/text.h"
#include "tessera/comm/collectives.h"

namespace tessera::ddp::detail {
namespace {

int64_t numel_of(const NamedParameters& parameters) {
  int64_t numel = 0;
  for (const NamedParameter& parameter : parameters) numel += parameter.tensor.numel();
  return numel;
}

// Laid out like the parameter where that leaves no gaps, as autograd and optimizers want it. No
// view for autograd: torch::optim refuses to clear those.
at::Tensor view_of(const at::Tensor& flat, int64_t begin, const at::Tensor& parameter) {
  if (!parameter.is_non_overlapping_and_dense()) {
    return flat.narrow(0, begin, parameter.numel()).view(parameter.sizes()).detach();
  }
  return flat.as_strided(parameter.sizes(), parameter.strides(), begin).detach();
}

}  // namespace

DdpBucket::DdpBucket(NamedParameters parameters, at::ScalarType dtype)
    : parameters_(std::move(parameters)), num_awaited_(parameters_.size()) {
  const int64_t numel = numel_of(parameters_);
  const auto num_flags = static_cast<int64_t>(parameters_.size());
  flat_ = at::empty({numel + num_flags + kTailSize}, parameters_[0].tensor.options().dtype(dtype));
  tail_ = flat_.narrow(0, numel, num_flags + kTailSize);
  int64_t begin = 0;
  for (const NamedParameter& parameter : parameters_) {
    views_.push_back(view_of(flat_, begin, parameter.tensor));
    begin += parameter.tensor.numel();
  }
}

bool DdpBucket::has_views(size_t index) const {
  return parameters_[index].tensor.scalar_type() == flat_.scalar_type();
}

// Whether there was a gradient to take.
bool DdpBucket::take(size_t index, double share) {
  at::Tensor& gradient = parameters_[index].tensor.mutable_grad();
  at::Tensor& view = views_[index];
  if (!gradient.defined() || gradient.layout() != at::kStrided) {
    view.zero_();
    return false;
  }
  if (!has_views(index)) {
    view.copy_(gradient).mul_(share);  // Scaled as what it is summed as, not as what it was.
    return true;
  }
  at::mul_out(view, gradient, at::scalar_tensor(share, at::kDouble));
  gradient = view;
  return true;
}

void DdpBucket::start(double share, std::string& refusal, const Group& group) {
  std::vector<double> numbers;
  present_.clear();
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, tensor] = parameters_[i];
    present_.push_back(take(i, share));
    numbers.push_back(present_.back() ? 1 : 0);
    if (!present_.back() && tensor.grad().defined()) {
      refusal = concat("the gradient of parameter '", name, "' is of layout ",
                       tensor.grad().layout(), "; only dense gradients are reduced");
    }
  }
  numbers.push_back(share);
  numbers.push_back(refusal.empty() ? 0 : 1);
  tail_.copy_(at::tensor(numbers, at::kDouble));
  work_.emplace(all_reduce(flat_, group));
}

// A gradient that this rank has not: the others' sum, where there is one.
void DdpBucket::give(size_t index) const {
  const at::Tensor& parameter = parameters_[index].tensor;
  at::Tensor& gradient = parameter.mutable_grad();
  if (present_[index]) {
    if (!has_views(index)) gradient.copy_(views_[index]);
  } else if (tail(static_cast<int64_t>(index)) > 0) {
    gradient = has_views(index) ? views_[index] : views_[index].to(parameter.scalar_type());
  }
}

void DdpBucket::finish() {
  (void)std::move(*work_).wait();
  work_.reset();
  num_awaited_ = parameters_.size();
  for (size_t i = 0; i < parameters_.size(); ++i) give(i);
}

double DdpBucket::tail(int64_t index) const {
  return tail_[index].item().toDouble();
}
double DdpBucket::sum_of_shares() const {
  return tail(static_cast<int64_t>(parameters_.size()) + kShare);
}
double DdpBucket::slack() const {
  return c10::elementSize(flat_.scalar_type()) < c10::elementSize(at::kFloat) ? 1e-2 : 1e-5;
}
double DdpBucket::num_refusals() const {
  return tail(static_cast<int64_t>(parameters_.size()) + kRefusals);
}

}  // namespace tessera::ddp::detail
