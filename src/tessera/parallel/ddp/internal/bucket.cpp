#include "tessera/parallel/ddp/internal/bucket.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <utility>

#include "tessera/base/text.h"
#include "tessera/comm/buffers.h"
#include "tessera/comm/collectives.h"

namespace tessera::ddp::detail {
namespace {

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

// Whether there is a gradient to reduce.
bool report_gradient(const TrainedParameter& parameter, RankReport& report) {
  const at::Tensor& gradient = parameter.tensor.grad();
  if (parameter.is_changed()) report.replaced[parameter.index] = true;
  if (report.replaced[parameter.index]) {
    report.refusal = concat("parameter '", parameter.name, "' was replaced");
    return false;
  }
  if (!gradient.defined() || gradient.layout() == at::kStrided) return gradient.defined();
  report.refusal = concat("the gradient of parameter '", parameter.name, "' is of layout ",
                          gradient.layout(), "; only dense gradients are reduced");
  return false;
}

}  // namespace

bool TrainedParameter::is_changed() const {
  return tensor.sizes() != original.sizes() || tensor.scalar_type() != original.scalar_type() ||
         tensor.device() != original.device();
}

DdpBucket::DdpBucket(std::vector<const TrainedParameter*> parameters, at::ScalarType dtype,
                     const Group& group)
    : parameters_(std::move(parameters)), group_(group), num_awaited_(parameters_.size()) {
  flat_ =
      empty_buffer({numel_of(parameters_)}, parameters_[0]->original.options().dtype(dtype), group);
  int64_t begin = 0;
  for (const TrainedParameter* parameter : parameters_) {
    views_.push_back(view_of(flat_, begin, parameter->original));
    begin += parameter->original.numel();
  }
}

bool DdpBucket::has_views(size_t index) const {
  return parameters_[index]->original.scalar_type() == flat_.scalar_type();
}

void DdpBucket::take(size_t index, double share) {
  at::Tensor& gradient = parameters_[index]->tensor.mutable_grad();
  at::Tensor& view = views_[index];
  if (!has_views(index)) {
    view.copy_(gradient).mul_(share);  // Scaled in the dtype of the sum.
    return;
  }
  at::mul_out(view, gradient, at::scalar_tensor(share, at::kDouble));
  gradient = view;
}

void DdpBucket::start(RankReport& report) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const bool is_present = report_gradient(*parameters_[i], report);
    report.present[parameters_[i]->index] = is_present;
    if (is_present) {
      take(i, report.share);
    } else {
      views_[i].zero_();
    }
  }
  work_.emplace(all_reduce(flat_, group_));
}

void DdpBucket::wait() {
  (void)std::move(*work_).wait();
  work_.reset();
  num_awaited_ = parameters_.size();
}

// If this rank has no gradient, it gets the sum of the others, if there is one.
void DdpBucket::give(const RankReport& own, const GroupReport& all) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const TrainedParameter& parameter = *parameters_[i];
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    if (own.present[parameter.index]) {
      if (!has_views(i)) gradient.copy_(views_[i]);
    } else if (all.present[parameter.index] && !all.replaced[parameter.index]) {
      gradient = has_views(i) ? views_[i] : views_[i].to(parameter.tensor.scalar_type());
    }
  }
}

}  // namespace tessera::ddp::detail
