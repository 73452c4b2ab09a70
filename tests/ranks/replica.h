#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tessera/base/text.h"
#include "tessera/comm/world.h"
#include "tessera/layer/linear.h"
#include "tessera/parallel/ddp/ddp.h"
#include "tessera/tensor/parameter.h"
#include "tests/testkit/device.h"

/// Helpers for tests of data parallelism.
namespace tessera::testkit {

/// Tolerance for float64 sums in any order.
inline constexpr double kExact = 1e-12;
/// One bucket per parameter, a few buckets, and one for all.
inline const std::vector<int64_t> kBucketSizes{1, 500, int64_t{1} << 30};

inline at::Tensor random_tensor(at::IntArrayRef shape, at::ScalarType dtype, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(shape, generator, at::kDouble).to(here(dtype));
}

/// A small network of plain tensors; the values depend on the seed.
struct Replica {
  Replica(at::ScalarType dtype, uint64_t seed, int64_t num_layers = 3) {
    for (int64_t i = 0; i < num_layers; ++i) {
      const uint64_t layer = seed * 100 + static_cast<uint64_t>(i) * 2;
      add(concat("layer", i, ".weight"), random_tensor({kWidth, kWidth}, dtype, layer).mul(0.4));
      add(concat("layer", i, ".bias"), random_tensor({kWidth}, dtype, layer + 1));
    }
  }

  void add(const std::string& name, const at::Tensor& value) {
    parameters.push_back({name, value.detach().clone().requires_grad_()});
  }

  at::Tensor layer(size_t index, const at::Tensor& x) const {
    const at::Tensor& weight = parameters[2 * index].tensor;
    return at::linear(x, weight, parameters[2 * index + 1].tensor).tanh();
  }
  /// The mean loss over the rows.
  at::Tensor loss(const at::Tensor& rows) const {
    at::Tensor x = rows;
    for (size_t i = 0; i < parameters.size() / 2; ++i) x = layer(i, x);
    return x.square().mean();
  }

  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all;
    for (const Parameter& parameter : parameters) all.push_back(parameter.tensor);
    return all;
  }
  void zero_grad() const {
    for (const Parameter& parameter : parameters) parameter.tensor.mutable_grad().reset();
  }

  static constexpr int64_t kWidth = 7;
  Parameters parameters;
};

/// Rows of a global batch, and those of one rank: equal shares, or one row more per rank.
struct GlobalBatch {
  GlobalBatch(const World& world, at::ScalarType dtype, bool uneven, uint64_t step) {
    const int64_t rank = world.rank().value;
    const int64_t size = world.size();
    const int64_t num_rows = uneven ? size * (size + 1) / 2 : 2 * size;
    all = random_tensor({num_rows, Replica::kWidth}, dtype, 1000 + step);
    mine = uneven ? all.narrow(0, rank * (rank + 1) / 2, rank + 1) : all.narrow(0, 2 * rank, 2);
    share = static_cast<double>(mine.size(0)) / static_cast<double>(num_rows);
  }
  at::Tensor all;
  at::Tensor mine;
  double share = 0;
};

inline double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return a.detach().sub(b.detach()).abs().max().item<double>();
}

/// The largest difference between the gradients of two replicas; infinite if one is missing.
inline double gradient_difference(const Replica& a, const Replica& b) {
  double largest = 0;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const at::Tensor& here = a.parameters[i].tensor.grad();
    const at::Tensor& there = b.parameters[i].tensor.grad();
    if (!here.defined() || !there.defined()) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, largest_difference(here, there));
  }
  return largest;
}

inline double value_difference(const Replica& a, const Replica& b) {
  double largest = 0;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    largest = std::max(largest, largest_difference(a.parameters[i].tensor, b.parameters[i].tensor));
  }
  return largest;
}

inline uint64_t rank_of(const World& world) {
  return static_cast<uint64_t>(world.rank().value);
}

/// A rank's rows of a step, in equal shares.
inline at::Tensor rows_of(const World& world, uint64_t step) {
  return GlobalBatch(world, at::kDouble, false, step).mine;
}

/// The loss with deferred weight gradients.
inline at::Tensor deferred_loss(const Replica& replica, const at::Tensor& rows,
                                const WeightGradients& later) {
  at::Tensor x = rows;
  for (size_t i = 0; i < replica.parameters.size(); i += 2) {
    x = linear(x, replica.parameters[i].tensor, replica.parameters[i + 1].tensor,
               {.deferred = &later})
            .tanh();
  }
  return x.square().mean();
}

}  // namespace tessera::testkit
