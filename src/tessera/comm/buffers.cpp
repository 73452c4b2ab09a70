#include "tessera/comm/buffers.h"

#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>

#include "tessera/comm/internal/state.h"

namespace tessera {

using namespace comm::detail;

namespace {

// A program that has set an allocator of its own keeps it.
bool has_default_allocator() {
  return c10::GetCPUAllocator() == c10::GetDefaultCPUAllocator();
}

at::Tensor tensor_in(c10::DataPtr memory, size_t bytes, at::IntArrayRef shape,
                     const at::TensorOptions& options) {
  at::Tensor tensor = at::empty({0}, options);
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(c10::Storage(c10::Storage::use_byte_size_t(), bytes,
                                           std::move(memory), c10::GetCPUAllocator(),
                                           /*resizable=*/true));
  impl.set_sizes_contiguous(shape);
  return tensor;
}

// Without huge pages the first write to each page takes longer than the transfer of its content.
at::Tensor in_huge_pages(at::Tensor tensor) {
  constexpr size_t kLarge = size_t{8} << 20;
  constexpr uintptr_t kPage = 4096;
  if (tensor.nbytes() < kLarge) return tensor;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data_ptr());
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t end = (begin + tensor.nbytes()) / kPage * kPage;
  (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);  // Only advice.
  return tensor;
}

}  // namespace

at::Tensor empty_buffer(at::IntArrayRef shape, const at::TensorOptions& options,
                        const Group& group) {
  constexpr size_t kLarge = size_t{256} << 10;
  const size_t bytes =
      static_cast<size_t>(c10::multiply_integers(shape)) * options.dtype().itemsize();
  const bool can = options.device().is_cpu() && !options.pinned_memory() && group.size() > 1 &&
                   has_default_allocator();
  if (!can || bytes < kLarge) return at::empty(shape, options);
  const auto& twin = group.state().cpu_twin();
  const GroupState& state = twin ? *twin : group.state();
  auto memory = state.world().engine(state.backend())->buffer(bytes);
  if (!memory) return in_huge_pages(at::empty(shape, options));
  return tensor_in(std::move(*memory), bytes, shape, options);
}

}  // namespace tessera
