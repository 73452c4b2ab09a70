#include "tessera/layer/gradient_place.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <cstdint>

#include "tessera/base/error.h"

namespace tessera {
namespace {

namespace autograd = torch::autograd;

constexpr const char* kKeptRows = "kept rows";
constexpr const char* kKeptVersion = "version of the kept rows";

}  // namespace

at::Tensor keep_rows(autograd::AutogradContext& context, const at::Tensor& x) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::Tensor rows = x.flatten(0, -2).contiguous();
  const bool has_version = !x.is_inference();
  if (has_version && rows.is_alias_of(x)) {
    autograd::impl::set_version_counter(rows, autograd::impl::version_counter(x));
  }
  context.saved_data[kKeptRows] = rows;
  if (has_version) context.saved_data[kKeptVersion] = static_cast<int64_t>(rows._version());
  return rows;
}

KeptRows take_rows(autograd::AutogradContext& context) {
  auto& saved = context.saved_data;
  if (saved.count(kKeptRows) == 0) {
    throw StateError(
        "a loss was passed backward twice, but its logits are gone; keep its graph in the first "
        "pass (retain_graph)");
  }
  const at::Tensor rows = saved[kKeptRows].toTensor();
  if (saved[kKeptVersion].toInt() != static_cast<int64_t>(rows._version())) {
    throw StateError(
        "the logits of a loss were changed in place before its backward pass; change a copy");
  }
  const bool is_kept = autograd::get_current_graph_task_keep_graph();
  if (!is_kept) saved.erase(kKeptRows);
  constexpr size_t kOwn = 1;  // The rows themselves.
  const bool is_read_again = is_kept || rows.storage().use_count() > kOwn;
  return {rows, is_read_again ? at::empty_like(rows) : rows};
}

}  // namespace tessera
