#include "tessera/parallel/tensor/tensor_units.h"

#include <c10/core/GradMode.h>

#include "tessera/tensor/unallocated.h"

namespace tessera {
namespace {

at::Tensor part_of(const at::Tensor& whole, const Box& box) {
  if (is_unallocated(whole)) return unallocated(box.shape, whole.options());
  at::Tensor part = whole.detach();
  for (size_t i = 0; i < box.shape.size(); ++i) {
    part = part.narrow(static_cast<int64_t>(i), box.offset[i], box.shape[i]);
  }
  return part.clone(at::MemoryFormat::Contiguous);
}

}  // namespace

void cut_tensors(std::vector<Unit>& units) {
  const at::NoGradGuard no_grad;
  for (Unit& unit : units) {
    for (const Parameter& parameter : unit.parameters) {
      const Box& box = parameter.place.part.box();
      if (box.shape != parameter.place.part.shape()) {
        parameter.tensor.set_data(part_of(parameter.tensor, box));
      }
    }
  }
}

}  // namespace tessera
