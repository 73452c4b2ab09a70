#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/comm/differentiable.h"
#include "tessera/layer/pass.h"
#include "tessera/topology/box.h"

namespace tessera TSR_API {

/// The experts of this rank: consecutive ones, equally many on each rank of ep. ConfigError if ep
/// does not divide them.
Span own_experts(int64_t num_experts, const Pass& pass);

/// Moves rows to the ranks that hold their experts, and back: dropless, with an uneven all-to-all
/// over ep. The ranks of etp gather their rows, since each of them computes a part of every row,
/// and reduce-scatter the results.
///
///   ExpertExchange exchange(order.counts, x.device(), pass);
///   at::Tensor rows = exchange.send(expert_rows(x, order));   // Sorted by own expert.
///   at::Tensor back = exchange.give_back(experts(rows, exchange.counts()));
///
/// Ranks may send and receive no row. Without expert parallelism all of it does nothing.
class ExpertExchange {
 public:
  /// **Collective.** `counts` are this rank's rows per expert, of all experts. Waits for the
  /// other ranks, but not for a GPU.
  ExpertExchange(std::span<const int64_t> counts, at::Device device, const Pass& pass);

  /// Rows per expert of this rank.
  const std::vector<int64_t>& counts() const& { return counts_; }

  /// Rows on their way.
  using InFlight = differentiable::InFlight;
  /// **Collective**, in the forward and in the backward pass, like the next ones. `rows` are sorted
  /// by expert, of all experts; the result by expert, of this rank's. What is computed between
  /// start() and finish() overlaps with the all-to-all: in the forward pass, and its backward with
  /// the all-to-all of the gradients.
  InFlight start(const at::Tensor& rows) const;
  /// Waits for the rows of this rank's experts. Once per start().
  at::Tensor finish(const InFlight& sent) const;
  /// start() and finish(), without overlap.
  at::Tensor send(const at::Tensor& rows) const { return finish(start(rows)); }
  /// From the results of this rank's experts, on each rank of etp a part of the sum, to the results
  /// of the rows that it sent.
  at::Tensor give_back(const at::Tensor& results) const;

 private:
  void sort(const at::Tensor& received);

  const ExpertParallel* parallel_ = nullptr;  // Null: every row stays where it is.
  std::vector<int64_t> counts_ = {};
  std::vector<int64_t> sent_ = {}, received_ = {};  // Rows by rank of ep.
  std::vector<int64_t> gathered_ = {};              // Rows by rank of etp.
  at::Tensor to_experts_ = {},
             from_experts_ = {};  // Between the order of arrival and that of experts.
};

}  // namespace tessera
