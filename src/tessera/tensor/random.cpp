#include "tessera/tensor/random.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <functional>

#include "tessera/base/check.h"
#include "tessera/topology/runs.h"

namespace tessera {
namespace {

/// Calls a function with each run of a shard, in the shard's order.
using EachRun = std::function<void(const std::function<void(Span)>&)>;

void make(const Sampler& sampler, int64_t first, std::span<float> out) {
  sampler.fill(first, out);
}

void make(const Sampler& sampler, int64_t first, std::span<double> out) {
  sampler.fill(first, out);
}

template <class T>
void make(const Sampler& sampler, int64_t first, std::span<T> out) {
  std::array<float, 1024> buffer;
  for (size_t done = 0; done < out.size(); done += buffer.size()) {
    const std::span part(buffer.data(), std::min(buffer.size(), out.size() - done));
    sampler.fill(first + static_cast<int64_t>(done), part);
    std::ranges::transform(part, out.begin() + static_cast<int64_t>(done),
                           [](float value) { return static_cast<T>(value); });
  }
}

template <class T>
void fill_as(const at::Tensor& shard, const Sampler& sampler, const EachRun& each_run) {
  T* out = shard.mutable_data_ptr<T>();
  each_run([&](Span run) {
    make(sampler, run.begin, std::span<T>(out, static_cast<size_t>(run.size())));
    out += run.size();
  });
}

void fill_contiguous(const at::Tensor& shard, const Sampler& sampler, const EachRun& each_run) {
  switch (shard.scalar_type()) {
    case at::kFloat:
      return fill_as<float>(shard, sampler, each_run);
    case at::kDouble:
      return fill_as<double>(shard, sampler, each_run);
    case at::kBFloat16:
      return fill_as<at::BFloat16>(shard, sampler, each_run);
    case at::kHalf:
      return fill_as<at::Half>(shard, sampler, each_run);
    case at::kBool:
      return fill_as<bool>(shard, sampler, each_run);
    default:
      TSR_CHECK(false, "random values of dtype ", shard.scalar_type(),
                " are not supported; use float, double, bfloat16, half or bool");
  }
}

void fill(const at::Tensor& shard, const Sampler& sampler, const EachRun& each_run) {
  const c10::AutoGradMode off(false);
  const bool directly = shard.is_cpu() && shard.is_contiguous();
  const at::Tensor values =
      directly ? shard : at::empty(shard.sizes(), shard.options().device(at::kCPU));
  fill_contiguous(values, sampler, each_run);
  if (!directly) shard.copy_(values);
}

template <class Parts, class Size>
int64_t total_of(const Parts& parts, Size size) {
  int64_t total = 0;
  for (const auto& part : parts) total += size(part);
  return total;
}

void check_numel(const at::Tensor& shard, int64_t numel, std::string_view what) {
  TSR_CHECK(shard.numel() == numel, "a shard of shape (", join(shard.sizes(), ","), ") has ",
            shard.numel(), " elements, but its ", what, " have ", numel,
            "; pass the shard of these ", what);
}

void check_run(const Span& run) {
  TSR_CHECK(0 <= run.begin && run.begin <= run.end, "run [", run.begin, ", ", run.end,
            ") is invalid; runs need 0 <= begin <= end");
}

}  // namespace

void init_(const at::Tensor& shard, const Box& box, std::span<const int64_t> global_shape,
           const RandomKey& key, const Distribution& distribution) {
  TSR_CHECK(shard.sizes() == box.shape, "a shard of shape (", join(shard.sizes(), ","),
            ") does not match box ", box, "; pass a box of the same shape");
  init_(shard, std::span(&box, 1), global_shape, key, distribution);
}

void init_(const at::Tensor& shard, std::span<const Box> pieces,
           std::span<const int64_t> global_shape, const RandomKey& key,
           const Distribution& distribution) {
  check_numel(shard, total_of(pieces, std::mem_fn(&Box::numel)), "boxes");
  fill(shard, Sampler(key, distribution),
       [&](const auto& visit) { for_each_run(global_shape, pieces, visit); });
}

void init_(const at::Tensor& shard, std::span<const Span> runs, const RandomKey& key,
           const Distribution& distribution) {
  std::ranges::for_each(runs, check_run);
  check_numel(shard, total_of(runs, std::mem_fn(&Span::size)), "runs");
  fill(shard, Sampler(key, distribution),
       [&](const auto& visit) { std::ranges::for_each(runs, visit); });
}

}  // namespace tessera
