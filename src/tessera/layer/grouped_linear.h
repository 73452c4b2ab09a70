#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/layer/pass.h"

namespace tessera TSR_API {

/// Linear layers of several experts, one weight [outputs, inputs] per expert.
using ExpertWeights = std::vector<at::Tensor>;

/// The products of rows [rows, inputs], which are sorted by expert, with the weights of their
/// experts: counts[e] rows belong to expert e. One result per entry of `layers`, e.g. gate and up.
/// Small products run beside each other, one thread each.
///
/// An expert without rows gets no gradient; with Pass::experts it gets zeros, since other ranks may
/// have rows for it, and all ranks must reduce its gradient at the same time. Pass::deferred and
/// Pass::kept work as in linear().
std::vector<at::Tensor> grouped_linear(const at::Tensor& rows, std::span<const int64_t> counts,
                                       std::span<const ExpertWeights> layers,
                                       const Pass& pass = {});
/// A product of each expert's rows with its weight; `counts` are the rows per expert.
at::Tensor grouped_linear(const at::Tensor& rows, std::span<const int64_t> counts,
                          const ExpertWeights& weights, const Pass& pass = {});

}  // namespace tessera
