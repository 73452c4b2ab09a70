#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/comm/group.h"
#include "tessera/comm/internal/state.h"
#include "tessera/comm/sent_bytes.h"
#include "tessera/topology/box.h"
#include "tests/testkit/device.h"

/// Helpers for tests of tensor-parallel layers.
namespace tessera::testkit {

/// Float64 sums in any order.
inline constexpr double kTolerance = 1e-10;

/// Random numbers from -0.5 to 0.5, the same on every rank.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

  at::Tensor tensor(at::IntArrayRef shape) {
    return at::rand(shape, generator_, at::kDouble).sub(0.5).to(here(at::kDouble));
  }
  at::Tensor leaf(at::IntArrayRef shape) { return tensor(shape).requires_grad_(); }

 private:
  at::Generator generator_;
};

/// A rank's part of a whole tensor, as a leaf.
inline at::Tensor part_of(const at::Tensor& whole, int64_t dim, const Span& span) {
  if (!whole.defined()) return {};
  return whole.detach().narrow(dim, span.begin, span.size()).clone().requires_grad_();
}

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return 1e300;
  return a.numel() == 0 ? 0 : a.to(at::kDouble).sub(b.to(at::kDouble)).abs().max().item<double>();
}

/// The operations of this rank that the recorder has seen, and the bytes that they sent.
class Traffic {
 public:
  explicit Traffic(const Group& group)
      : group_(group), first_(entries().empty() ? 0 : entries().back().record_id + 1) {}

  /// Since construction, in order: "all_gather reduce_scatter".
  std::string operations() const {
    std::string names;
    for (const FlightEntry& entry : since()) {
      names += (names.empty() ? "" : " ") + name_of(entry);
    }
    return names;
  }

  /// Sent by this rank.
  double bytes() const { return static_cast<double>(total_bytes(group_) - sent_); }

 private:
  std::vector<FlightEntry> entries() const {
    return group_.state().world().recorder->dump("").entries;
  }
  std::vector<FlightEntry> since() const {
    std::vector<FlightEntry> all = entries();
    std::erase_if(all, [&](const FlightEntry& entry) { return entry.record_id < first_; });
    return all;
  }
  static std::string name_of(const FlightEntry& entry) {
    return entry.profiling_name.substr(entry.profiling_name.find(':') + 1);
  }
  static int64_t total_bytes(const Group& group) {
    int64_t sum = 0;
    for (const auto& [name, bytes] : sent_bytes(group)) sum += bytes;
    return sum;
  }

  Group group_;
  int64_t first_;
  int64_t sent_ = total_bytes(group_);
};

}  // namespace tessera::testkit
