#include "tessera/kernel/nvrtc/nvrtc.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/text.h"
#include "tessera/kernel/nvrtc/compiler.h"
#include "tessera/kernel/nvrtc/conversions.h"

namespace tessera::kernel::detail {
namespace {

// The functions of the driver that are used here, whose header belongs to a toolkit.
struct Driver {
  int (*load)(void** module, const void* image);
  int (*find)(void** function, void* module, const char* name);
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, cudaStream_t, void** arguments, void** extra);

  explicit Driver(const Libraries& libraries) {
    libraries.bind("cuModuleLoadData", load);
    libraries.bind("cuModuleGetFunction", find);
    libraries.bind("cuLaunchKernel", launch);
  }
};

// LibTorch's own door to NVRTC knows where it is installed.
std::vector<std::string> library_names() {
  std::vector<std::string> names;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&c10::cuda::getCurrentCUDAStream), &here) != 0) {
    const auto folder = std::filesystem::path(here.dli_fname).parent_path();
    names.push_back((folder / "libcaffe2_nvrtc.so").string());
  }
  names.insert(names.end(), {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "libcuda.so.1"});
  return names;
}

const Libraries& libraries() {
  static const Libraries opened(library_names());
  return opened;
}

const Driver& driver() {
  static const Driver bound(libraries());
  return bound;
}

// The generation of a card: 90 is that of an H200.
int generation(at::Device device) {
  const auto [major, minor] = capability(device).value();
  return 10 * major + minor;
}

void check_driver(int code, const char* what, const std::string& name) {
  if (code == 0) return;
  throw StateError(concat("kernel '", name, "': ", what, " failed with the driver's error ", code));
}

// Binds the thread to the GPU's context, which the driver's functions do not do.
void enter(at::Device device) {
  thread_local std::map<c10::DeviceIndex, bool> entered;
  if (entered[device.index()]) return;
  C10_CUDA_CHECK(cudaFree(nullptr));
  entered[device.index()] = true;
}

}  // namespace

bool is_gpu(at::Device device) {
  return device.is_cuda();
}

std::optional<GpuCapability> capability(at::Device device) {
  if (!is_gpu(device)) return std::nullopt;
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device.index()));
    return value;
  };
  return GpuCapability{.major = attribute(cudaDevAttrComputeCapabilityMajor),
                       .minor = attribute(cudaDevAttrComputeCapabilityMinor)};
}

const char* conversions() {
  return kConversions;
}

void* compile(at::Device device, const std::string& name, const std::string& source,
              const std::string& flags) {
  static const Compiler compiler(libraries());
  const c10::cuda::CUDAGuard guard(device);
  enter(device);
  const std::vector<char> binary = compiler.compile(name, source, generation(device), flags).binary;
  void* module = nullptr;
  void* function = nullptr;
  check_driver(driver().load(&module, binary.data()), "loading", name);
  check_driver(driver().find(&function, module, name.c_str()), "finding it", name);
  return function;
}

void start(at::Device device, const char* name, void* function, int64_t blocks, int64_t threads,
           void** arguments) {
  const c10::cuda::CUDAGuard guard(device);
  enter(device);
  const int code = driver().launch(
      function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
      c10::cuda::getCurrentCUDAStream(device.index()).stream(), arguments, nullptr);
  check_driver(code, "starting", name);
}

}  // namespace tessera::kernel::detail
