#include "tessera/layer/gradient_place.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/graph_task.h>

#include <cstddef>

namespace tessera {

at::Tensor rows_below_autograd(const at::Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return x.flatten(0, -2).contiguous();
}

at::Tensor gradient_place(const at::Tensor& rows) {
  constexpr size_t kOwn = 1;  // The rows themselves.
  const bool is_read_again =
      rows.storage().use_count() > kOwn || torch::autograd::get_current_graph_task_keep_graph();
  return is_read_again ? at::empty_like(rows) : rows;
}

}  // namespace tessera
