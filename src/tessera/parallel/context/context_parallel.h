#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "tessera/base/export.h"
#include "tessera/comm/group.h"
#include "tessera/layer/custom_attention.h"
#include "tessera/layer/documents.h"
#include "tessera/layer/pass.h"
#include "tessera/parallel/unit_recorder.h"
#include "tessera/plan/context_parallel.h"

namespace tessera TSR_API {

/// The groups of context parallelism, as train_plan() names them.
struct ContextGroups {
  Group cp;  // Its ranks hold different positions of the same sequences.
  /// Of type hierarchical only: this rank's inner group, of ContextParallelOptions::sizes[0]
  /// consecutive ranks of cp.
  std::optional<Group> all_to_all = std::nullopt;
  /// Of type hierarchical only: this rank's outer group, with one rank of each inner group.
  std::optional<Group> ring = std::nullopt;
};

/// Context parallelism: each rank of a group holds some positions of every sequence, and the ranks
/// compute attention together. A group of one rank holds whole sequences.
///
///   const ContextParallel context({plan.group("cp")}, {.type = "ring", .layout = "head-tail"});
///   const at::Tensor tokens = context.cut(rows);
///   causal_attention(q, k, v, {.context = &context, .positions = context.positions(1024)});
///
/// The layout depends on the documents of a row if its name says so; all functions of one pass must
/// get the same documents. All ranks must pass tensors of the same shape.
///
/// Threads: any; but attend() is **collective**, in the forward and in the backward pass.
class ContextParallel final : public ContextAttention {
 public:
  ContextParallel(ContextGroups groups, ContextParallelOptions options);

  /// This rank's tokens of whole rows [rows, positions, …]. ConfigError if the layout does not take
  /// the number of positions.
  at::Tensor cut(const at::Tensor& whole, const PackedRows* documents = nullptr) const;
  /// For Pass::positions: of this rank's tokens of sequences of this length, on the CPU. Undefined
  /// if they are 0, 1, 2, …
  at::Tensor positions(int64_t length, const PackedRows* documents = nullptr) const;

  /// Exact attention; sums over keys of several ranks are in float32, or float64 for float64.
  /// Pass::kept keeps the output and its log-sum-exp, and the results of all-to-alls.
  at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                    int64_t window, const Pass& pass) const override;
  int64_t ranks() const override { return groups_.cp.size(); }

  /// Where the units of passes from now on record their exchanges and products. No pass may run
  /// meanwhile.
  void record(const UnitRecorder& recorder) { recorder_ = recorder; }

 private:
  at::Tensor attend_by_type(const AttentionInputs& inputs, int64_t window, const Pass& pass) const;

  ContextGroups groups_;
  ContextParallelOptions options_;
  UnitRecorder recorder_ = {};
};

}  // namespace tessera
