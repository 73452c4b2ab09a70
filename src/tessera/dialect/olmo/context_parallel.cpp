#include "tessera/dialect/olmo/context_parallel.h"

#include <ATen/ATen.h>

#include "tessera/base/check.h"
#include "tessera/plan/packed_documents.h"

namespace tessera::olmo {
namespace {

using PadValues = std::optional<std::vector<double>>;

// The size of all inputs along their sequence dimensions.
int64_t sequence_length(const std::vector<at::Tensor>& inputs, const std::vector<int64_t>& seq_dims,
                        const PadValues& pad_values) {
  TSR_CHECK(!inputs.empty(), "there is no input to shard");
  TSR_CHECK(seq_dims.size() == inputs.size(), inputs.size(), " inputs have ", seq_dims.size(),
            " sequence dimensions; give one per input");
  TSR_CHECK(!pad_values || pad_values->size() == inputs.size(), inputs.size(), " inputs have ",
            pad_values->size(), " padding values; give one per input");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t dim = seq_dims[i] < 0 ? seq_dims[i] + inputs[i].dim() : seq_dims[i];
    TSR_CHECK(0 <= dim && dim < inputs[i].dim(), "input ", i, " has no dimension ", seq_dims[i]);
    TSR_CHECK(inputs[i].size(dim) == inputs[0].size(seq_dims[0]), "input ", i, " has ",
              inputs[i].size(dim), " positions, but input 0 has ", inputs[0].size(seq_dims[0]));
  }
  return inputs[0].size(seq_dims[0]);
}

at::Tensor take(const at::Tensor& input, int64_t dim, const at::Tensor& positions, double pad) {
  const at::Tensor index = positions.to(input.device());
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[static_cast<size_t>(dim < 0 ? dim + input.dim() : dim)] = index.numel();
  return input.index_select(dim, index.clamp_min(0))
      .masked_fill(index.eq(kPadding).view(shape), pad);
}

std::vector<at::Tensor> take_all(const std::vector<at::Tensor>& inputs,
                                 const std::vector<int64_t>& seq_dims,
                                 const std::vector<int64_t>& positions,
                                 const PadValues& pad_values) {
  const at::Tensor index = at::tensor(positions, at::kLong);
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(take(inputs[i], seq_dims[i], index, pad_values ? (*pad_values)[i] : 0));
  }
  return parts;
}

}  // namespace

std::vector<at::Tensor> batch_shard(const RingAttentionLoadBalancer& load_balancer,
                                    const std::vector<at::Tensor>& inputs,
                                    const std::vector<int64_t>& seq_dims,
                                    const PadValues& pad_values,
                                    std::optional<int64_t> length_multiple) {
  const int64_t length = sequence_length(inputs, seq_dims, pad_values);
  const ShardOptions options{pad_values.has_value(), length_multiple};
  return take_all(inputs, seq_dims, load_balancer.batch_shard(length, options), pad_values);
}

ShardedBatch batch_shard_by_document(const RingAttentionLoadBalancer& load_balancer,
                                     const std::vector<at::Tensor>& inputs,
                                     const std::vector<int64_t>& seq_dims,
                                     const std::vector<int64_t>& cu_doc_lens,
                                     const PadValues& pad_values,
                                     std::optional<int64_t> length_multiple) {
  const int64_t length = sequence_length(inputs, seq_dims, pad_values);
  DocumentShard shard =
      load_balancer.batch_shard_by_document(cu_doc_lens, {pad_values.has_value(), length_multiple});
  TSR_CHECK(cu_doc_lens.back() == length, "the documents have ", cu_doc_lens.back(),
            " positions, but the inputs have ", length);
  return {take_all(inputs, seq_dims, shard.positions, pad_values), std::move(shard)};
}

}  // namespace tessera::olmo
