#include "tessera/dialect/megatron/tensor_parallel.h"

#include "tessera/base/check.h"
#include "tessera/dialect/megatron/parallel_state.h"

namespace tessera::megatron {

std::vector<at::Tensor> split_tensor_along_last_dim(const at::Tensor& tensor,
                                                    int64_t num_partitions,
                                                    bool contiguous_split_chunks) {
  TSR_CHECK(tensor.dim() > 0, "a scalar has no last dimension to split");
  TSR_CHECK(num_partitions > 0, "cannot split into ", num_partitions, " partitions");
  TSR_CHECK(tensor.size(-1) > 0, "the last dimension is empty and cannot be split");
  std::vector<at::Tensor> parts = tensor.split(divide(tensor.size(-1), num_partitions), -1);
  if (contiguous_split_chunks) {
    for (at::Tensor& part : parts) part = part.contiguous();
  }
  return parts;
}

at::Tensor split_tensor_into_1d_equal_chunks(const at::Tensor& tensor, bool new_buffer,
                                             const std::optional<Group>& tp_group) {
  const Group group = tp_group ? *tp_group : get_tensor_model_parallel_group();
  TSR_CHECK(tensor.is_contiguous(), "only a contiguous tensor can be split into flat chunks");
  const int64_t size = divide(tensor.numel(), group.size());
  const at::Tensor chunk = tensor.view(-1).narrow(0, group.rank().value * size, size);
  return new_buffer ? chunk.clone() : chunk;
}

}  // namespace tessera::megatron
