#include "tessera/parallel/pipeline/internal/batch_slices.h"

#include <numeric>

#include "tessera/schedule/generate.h"

namespace tessera::pipeline::detail {

BatchSlices::BatchSlices(const PipelineBatch& batch, int64_t rows, int64_t microbatches)
    : batch_(batch),
      rows_(rows),
      sizes_(microbatch_sizes(rows, microbatches)),
      begins_(sizes_.size()) {
  std::exclusive_scan(sizes_.begin(), sizes_.end(), begins_.begin(), int64_t{0});
}

at::Tensor BatchSlices::slice(const at::Tensor& whole, int32_t microbatch) const {
  const auto at = static_cast<size_t>(microbatch);
  return whole.narrow(0, begins_[at], sizes_[at]);
}

Tensors BatchSlices::inputs(int32_t microbatch) const {
  Tensors slices;
  for (const at::Tensor& input : batch_.inputs) slices.push_back(slice(input, microbatch));
  return slices;
}

Keywords BatchSlices::keywords(int32_t microbatch) const {
  Keywords slices = batch_.keywords;
  for (auto& [name, value] : slices) {
    if (auto* const tensor = std::get_if<at::Tensor>(&value)) *tensor = slice(*tensor, microbatch);
  }
  return slices;
}

double BatchSlices::share(int32_t microbatch) const {
  return static_cast<double>(sizes_[static_cast<size_t>(microbatch)]) / static_cast<double>(rows_);
}

}  // namespace tessera::pipeline::detail
