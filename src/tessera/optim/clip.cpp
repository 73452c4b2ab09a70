#include "tessera/optim/clip.h"

#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/comm/collectives.h"
#include "tessera/kernel/gpu_kernel.h"
#include "tessera/kernel/square_sum.h"

namespace tessera {
namespace {

std::vector<at::Tensor> gradients_of(const Parameters& parameters) {
  std::vector<at::Tensor> gradients;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined()) gradients.push_back(gradient);
  }
  return gradients;
}

// A float32 sum stops growing when it is large: for 40 million equal squares the error is 5 %. So
// this computes norms of short rows, which costs no more, and sums them in float64.
void append_row_norms(const at::Tensor& flat, std::vector<at::Tensor>& norms) {
  constexpr int64_t kRow = 1024;
  const int64_t even = flat.numel() / kRow * kRow;
  const at::ScalarType dtype = c10::promoteTypes(flat.scalar_type(), at::kFloat);
  const auto append = [&](const at::Tensor& rows) {
    norms.push_back(at::linalg_vector_norm(rows, 2, 1, /*keepdim=*/false, dtype));
  };
  if (even > 0) append(flat.narrow(0, 0, even).view({-1, kRow}));
  append(flat.narrow(0, even, flat.numel() - even).view({1, -1}));
}

bool can_sum_on_gpu(const std::vector<at::Tensor>& gradients) {
  return std::ranges::all_of(gradients, [&](const at::Tensor& gradient) {
    return has_kernels(gradient) && gradient.is_contiguous() &&
           gradient.scalar_type() == gradients[0].scalar_type();
  });
}

void check_max_norm(double max_norm) {
  TSR_CHECK(max_norm > 0, "max_norm must be > 0, but is ", max_norm);
}

[[noreturn]] void refuse(const Parameters& parameters, double norm) {
  const std::string names = non_finite_gradients(parameters);
  throw NumericError(
      concat("the norm of the gradients is ", norm, "; ",
             names.empty() ? "all gradients on this rank are finite, so they are too large, or "
                             "another rank's are non-finite"
                           : concat("non-finite are those of ", names),
             ". Resume from an earlier state with a lower learning rate, or check the data"));
}

}  // namespace

std::string non_finite_gradients(const Parameters& parameters) {
  constexpr size_t kShown = 3;
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>())
      names.push_back(parameter.name);
  }
  if (names.empty()) return "";
  const size_t hidden = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - hidden);
  return concat("'", join(names, "', '"), "'", hidden == 0 ? "" : concat(" and ", hidden, " more"));
}

at::Tensor grad_square_sum(const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return at::zeros({}, at::kDouble);
  if (can_sum_on_gpu(gradients)) return square_sum_on_gpu(gradients);
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients) append_row_norms(gradient.reshape(-1), norms);
  return at::cat(norms).to(at::kDouble).square().sum();
}

double grad_norm(const Parameters& parameters) {
  return std::sqrt(grad_square_sum(parameters).item<double>());
}

double grad_norm(const Parameters& parameters, const Group& holders) {
  return grad_norm_on(holders.device(), parameters, holders).item<double>();
}

at::Tensor grad_norm_on(at::Device device, const Parameters& parameters, const Group& holders) {
  Parameters counted = parameters;
  std::erase_if(counted, [](const Parameter& p) { return !p.place.counts; });
  // This rank's gradients may be elsewhere, or there may be none.
  const at::Tensor squares = grad_square_sum(counted).to(device);
  return all_reduce(squares, holders).wait().sqrt_();
}

double clip_factor(double norm, double max_norm) {
  check_max_norm(max_norm);
  return norm <= max_norm ? 1 : max_norm / norm;
}

at::Tensor clip_factor(const at::Tensor& norm, double max_norm) {
  check_max_norm(max_norm);
  return at::full_like(norm, max_norm).div_(norm.clamp_min(max_norm));
}

void clip_grads_(const Parameters& parameters, double norm, double max_norm) {
  const double factor = clip_factor(norm, max_norm);
  if (!std::isfinite(norm)) refuse(parameters, norm);
  if (factor == 1) return;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = gradients_of(parameters);
  at::_foreach_mul_(gradients, factor);
}

double clip_grad_norm_(const Parameters& parameters, double max_norm, const Group& holders) {
  const double norm = grad_norm(parameters, holders);
  clip_grads_(parameters, norm, max_norm);
  return norm;
}

double clip_grad_norm_(const Parameters& parameters, double max_norm) {
  const double norm = grad_norm(parameters);
  clip_grads_(parameters, norm, max_norm);
  return norm;
}

}  // namespace tessera
