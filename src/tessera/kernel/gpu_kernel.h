#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "tessera/base/export.h"

/// Kernels that LibTorch does not have, one file each. NVRTC, a compiler that comes with LibTorch
/// for CUDA, makes them for the card at hand when they are first used. Their callers hold the same
/// in LibTorch's operators.
namespace tessera TSR_API {

/// The compute capability of a GPU, e.g. 9.0 of an H200.
struct GpuCapability {
  int major;  // 9
  int minor;  // 0
  auto operator<=>(const GpuCapability&) const = default;
};

/// Whether these kernels take tensors of this device and dtype: those of a GPU whose kernels can be
/// compiled, in 32 or 16 bits, unless TESSERA_KERNELS=0. Says once per GPU on standard error if
/// compiling fails.
bool has_kernels(const at::Tensor& tensor);

/// Whether both have the same dtype and device, as the operands of a kernel must.
bool is_alike(const at::Tensor& a, const at::Tensor& b);

/// How many elements of each of these tensors one thread may load at once: as many as fill 16
/// bytes, or 1 if a tensor does not begin at such an address, or its vectors of `size` elements do
/// not.
int64_t pack_width(at::TensorList tensors, int64_t size);

/// Where a tensor begins; null if it is undefined.
const void* data_or_null(const at::Tensor& tensor);

/// How the threads of a block share rows: a warp has a row, or the block has one.
struct RowThreads {
  int64_t of_row;  // Threads that share a row.
  int64_t rows;    // Per block.
  /// All threads of a block.
  int64_t of_block() const { return of_row * rows; }
};
/// At least `wanted` threads for a row, but at most a block.
RowThreads row_threads(int64_t wanted);

/// One kernel, and what has been compiled of it.
class GpuKernel {
 public:
  /// CUDA C++ that defines a kernel of this name, `extern "C"`, for numbers of type T in packs of
  /// WIDTH. The given constants are macros. What else it may use is in gpu_kernel.cpp.
  constexpr GpuKernel(const char* name, const char* source) : GpuKernel(name, "", source) {}
  /// With functions that it shares with other kernels.
  constexpr GpuKernel(const char* name, const char* shared, const char* source)
      : name_(name), shared_(shared), source_(source) {}

  /// What a kernel is compiled for.
  struct Form {
    at::ScalarType dtype = at::kFloat;  // T
    int64_t width = 1;                  // WIDTH
    std::string constants = {};         // "-DSIZE=3 …"
  };
  /// How many threads run it.
  struct Grid {
    int64_t blocks = 1;     // 0: launch() does nothing.
    int64_t threads = 256;  // Per block.
  };

  /// Starts it on the current stream of a device. The arguments must have the types of the kernel's
  /// parameters. Compiles the form first if it is new.
  template <class... Arguments>
  void launch(at::Device device, const Form& form, Grid grid, Arguments... arguments) const {
    std::array<void*, sizeof...(Arguments)> pointers{&arguments...};
    launch(device, form, grid, pointers.data());
  }

 private:
  void launch(at::Device device, const Form& form, Grid grid, void** arguments) const;
  void* compiled(at::Device device, const Form& form) const;

  const char* name_;
  const char* shared_;
  const char* source_;
};

/// The number of groups of `size` that hold `count`.
constexpr int64_t groups_of(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

}  // namespace tessera
