#pragma once

#include <memory>

#include "tessera/comm/group.h"
#include "tessera/layer/custom_attention.h"
#include "tessera/parallel/context/internal/batch_layout.h"
#include "tessera/parallel/unit_recorder.h"

/// The ways in which ranks exchange keys and values. Each is **collective** in both passes. Logs
/// get what is in flight, and when attention products run.
namespace tessera::context::detail {

using SharedLayout = std::shared_ptr<const BatchLayout>;

/// Each rank sends the keys and values that it has to the next rank while it computes with them.
/// In the backward pass their gradients follow them, and so arrive at home.
AttentionKernel ring_attention(const Group& group, const SharedLayout& layout, const UnitLog& log);

/// Each rank gathers all keys and values, `head_stride` heads at a time, and the next heads while
/// it computes. The backward pass gathers again and reduce-scatters the gradients.
AttentionKernel gathered_attention(const Group& group, const SharedLayout& layout,
                                   int64_t head_stride, const UnitLog& log);

/// The kernel, with a record of its products.
AttentionKernel recorded(const AttentionKernel& kernel, const UnitLog& log);

/// Ulysses: from the heads and the tokens of each rank of a group to all tokens of the group and
/// some heads, [batch, heads, positions, head size], in ascending positions; and back. The group's
/// ranks are `ranks` of the layout. Results that are not null keep what the ranks exchanged.
class HeadExchange {
 public:
  HeadExchange(const Group& group, const BatchLayout& layout, Span ranks, const UnitLog& log);

  AttentionInputs to_heads(const AttentionInputs& inputs, KeptResults* kept) const;
  at::Tensor to_tokens(const at::Tensor& output, KeptResults* kept) const;

 private:
  at::Tensor exchanged(const at::Tensor& sent) const;
  at::Tensor heads_of(const at::Tensor& tokens) const;
  at::Tensor tokens_of(const at::Tensor& heads) const;

  Group group_;
  std::shared_ptr<const Orders> ascending_;  // From the tokens of all ranks.
  std::shared_ptr<const Orders> by_rank_;    // And back.
  UnitLog log_;
};

}  // namespace tessera::context::detail
