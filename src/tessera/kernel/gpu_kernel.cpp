#include "tessera/kernel/gpu_kernel.h"

#include <algorithm>
#include <bit>
#include <iostream>
#include <map>
#include <mutex>
#include <tuple>

#include "tessera/base/check.h"
#include "tessera/base/environment.h"
#include "tessera/base/error_words.h"
#include "tessera/base/text.h"
#include "tessera/kernel/nvrtc/nvrtc.h"

namespace tessera {

using namespace kernel::detail;

namespace {

// Before each kernel, after conversions().
constexpr const char* kPrelude = R"cuda(
using T = NUMBER;

__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ void put(float& to, float x) { to = x; }

// What a thread loads and stores at once.
struct alignas(sizeof(T) * WIDTH) Pack { T at[WIDTH]; };
__device__ __forceinline__ Pack load(const T* from) { return *reinterpret_cast<const Pack*>(from); }
__device__ __forceinline__ void store(T* to, const Pack& pack) { *reinterpret_cast<Pack*>(to) = pack; }
)cuda";

const char* name_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return "float";
    case at::kBFloat16:
      return "bf16";
    case at::kHalf:
      return "fp16";
    default:
      return nullptr;
  }
}

void* compile_form(at::Device device, const char* name, const std::string& source,
                   const GpuKernel::Form& form) {
  return compile(
      device, name, concat(conversions(), kPrelude, source),
      concat("-DNUMBER=", name_of(form.dtype), " -DWIDTH=", form.width, " ", form.constants));
}

bool is_wanted() {
  const std::string value = process_environment()("TESSERA_KERNELS").value_or("1");
  TSR_CHECK(value == "0" || value == "1" || value.empty(), "TESSERA_KERNELS='", value,
            "' must be 0 or 1; set it to 0 to use LibTorch's operators alone, or leave it out");
  return value != "0";
}

// Whether anything compiles and loads. A card that is newer than the compiler, or a wheel without
// it, are no reason to stop. Nor are errors of CUDA, which LibTorch throws: if the card does not
// work at all, the next operator fails, too.
bool try_compiling(at::Device device) {
  try {
    compile_form(device, "probe", "extern \"C\" __global__ void probe(T* x) { put(*x, 1); }",
                 {.dtype = at::kBFloat16});
    return true;
  } catch (const std::exception& error) {
    const std::string words = error_words(error);
    std::cerr << concat("tessera: no kernels of its own for ", device.str(), " (",
                        words.substr(0, words.find('\n')),  // A compiler says more.
                        "); using LibTorch's, which are slower\n");
    return false;
  }
}

bool can_compile(at::Device device) {
  static const bool wanted = is_wanted();
  if (!wanted) return false;
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, bool> known;  // The GPUs of a machine may differ.
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(device.index());
  if (is_new) found->second = try_compiling(device);
  return found->second;
}

bool is_packed(const at::Tensor& tensor, int64_t bytes, int64_t width) {
  if (reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % static_cast<uintptr_t>(bytes) != 0) {
    return false;
  }
  return std::ranges::all_of(tensor.strides(),
                             [&](int64_t stride) { return stride == 1 || stride % width == 0; });
}

}  // namespace

bool has_kernels(const at::Tensor& tensor) {
  return is_gpu(tensor.device()) && name_of(tensor.scalar_type()) != nullptr &&
         can_compile(tensor.device());
}

bool is_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

int64_t pack_width(at::TensorList tensors, int64_t size) {
  constexpr int64_t kBytes = 16;
  int64_t width = kBytes;
  for (const at::Tensor& tensor : tensors) {
    width = std::min(width, kBytes / static_cast<int64_t>(tensor.element_size()));
  }
  const bool fits =
      size % width == 0 && std::ranges::all_of(tensors, [&](const at::Tensor& tensor) {
        return is_packed(tensor, width * static_cast<int64_t>(tensor.element_size()), width);
      });
  return fits ? width : 1;
}

const void* data_or_null(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

RowThreads row_threads(int64_t wanted) {
  constexpr int64_t kWarp = 32;
  constexpr int64_t kBlock = 256;
  const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(wanted)));
  const int64_t threads = std::clamp(rounded, kWarp, kBlock);
  return {.of_row = threads, .rows = threads == kWarp ? kBlock / kWarp : 1};
}

// The text of a kernel is only put together if its form is new.
void* GpuKernel::compiled(at::Device device, const Form& form) const {
  using Key = std::tuple<const char*, c10::DeviceIndex, at::ScalarType, int64_t, std::string>;
  static std::mutex mutex;
  static std::map<Key, void*> known;
  const Key key(source_, device.index(), form.dtype, form.width, form.constants);
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = compile_form(device, name_, concat(shared_, source_), form);
}

void GpuKernel::launch(at::Device device, const Form& form, Grid grid, void** arguments) const {
  if (grid.blocks == 0) return;
  start(device, name_, compiled(device, form), grid.blocks, grid.threads, arguments);
}

}  // namespace tessera
