#include "tessera/dialect/megatron/context_parallel.h"

#include <ATen/ATen.h>

#include "tessera/base/check.h"
#include "tessera/dialect/megatron/parallel_state.h"
#include "tessera/plan/context_layout.h"

namespace tessera::megatron {

std::map<std::string, at::Tensor> get_batch_on_this_cp_rank(std::map<std::string, at::Tensor> batch,
                                                            const std::optional<Group>& cp_group) {
  const Group group = cp_group ? *cp_group : get_context_parallel_group();
  if (group.size() == 1) return batch;
  for (auto& [name, tensor] : batch) {
    if (!tensor.defined()) continue;
    const int64_t dim = name == "attention_mask" ? 2 : 1;
    TSR_CHECK(dim < tensor.dim(), "'", name, "' has ", tensor.dim(),
              " dimensions, but its positions are dimension ", dim);
    const ContextLayout layout = ContextLayout::head_tail(tensor.size(dim), group.size());
    const at::Tensor own = at::tensor(layout.positions(group.rank().value), at::kLong);
    tensor = tensor.index_select(dim, own.to(tensor.device()));
  }
  return batch;
}

}  // namespace tessera::megatron
