#include "tessera/dialect/megatron/tensor_parallel.h"

#include "tessera/base/check.h"
#include "tessera/comm/differentiable.h"
#include "tessera/dialect/megatron/parallel_state.h"
#include "tessera/parallel/tensor/column_linear.h"
#include "tessera/parallel/tensor/row_linear.h"

namespace tessera::megatron {
namespace {

Group or_default(const std::optional<Group>& group) {
  return group ? *group : get_tensor_model_parallel_group();
}

at::Tensor gather_last_dim(const at::Tensor& tensor, const Group& group) {
  return all_gather(tensor, group, -1).wait();
}

at::Tensor own_last_dim(const at::Tensor& tensor, const Group& group) {
  const auto parts = split_tensor_along_last_dim(tensor, group.size());
  return parts[static_cast<size_t>(group.rank().value)].clone(at::MemoryFormat::Contiguous);
}

bool is_split(const Pass& pass) {
  return pass.tensor != nullptr && pass.tensor->group.size() > 1;
}

bool is_sequence_parallel(const Pass& pass) {
  return pass.tensor != nullptr && pass.tensor->sequence;
}

}  // namespace

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
  const Group group = or_default(tp_group);
  TSR_CHECK(tensor.is_contiguous(), "only a contiguous tensor can be split into flat chunks");
  const int64_t size = divide(tensor.numel(), group.size());
  const at::Tensor chunk = tensor.view(-1).narrow(0, group.rank().value * size, size);
  return new_buffer ? chunk.clone() : chunk;
}

at::Tensor gather_from_tensor_model_parallel_region(const at::Tensor& input,
                                                    const std::optional<Group>& group) {
  const Group ranks = or_default(group);
  if (ranks.size() == 1) return input;
  return differentiable::linear_map(
      input, [&](const at::Tensor& x) { return gather_last_dim(x, ranks); },
      [=](const at::Tensor& gradient) { return own_last_dim(gradient, ranks); });
}

at::Tensor scatter_to_tensor_model_parallel_region(const at::Tensor& input,
                                                   const std::optional<Group>& group) {
  const Group ranks = or_default(group);
  if (ranks.size() == 1) return input;
  return differentiable::linear_map(
      input, [&](const at::Tensor& x) { return own_last_dim(x, ranks); },
      [=](const at::Tensor& gradient) { return gather_last_dim(gradient, ranks); });
}

at::Tensor column_parallel_linear(const at::Tensor& input, const at::Tensor& weight,
                                  const at::Tensor& bias, const Pass& pass, bool gather_output) {
  TSR_CHECK(!gather_output || !is_sequence_parallel(pass),
            "gather_output and sequence parallelism exclude each other");
  const at::Tensor output = column_linear(input, weight, bias, pass);
  if (!gather_output || !is_split(pass)) return output;
  return gather_from_tensor_model_parallel_region(output, pass.tensor->group);
}

at::Tensor row_parallel_linear(const at::Tensor& input, const at::Tensor& weight,
                               const at::Tensor& bias, const Pass& pass, bool input_is_parallel) {
  TSR_CHECK(input_is_parallel || !is_sequence_parallel(pass),
            "sequence parallelism needs an input that is cut already: set input_is_parallel");
  const bool cuts = !input_is_parallel && is_split(pass);
  return row_linear(
      cuts ? scatter_to_tensor_model_parallel_region(input, pass.tensor->group) : input, weight,
      bias, pass);
}

}  // namespace tessera::megatron
