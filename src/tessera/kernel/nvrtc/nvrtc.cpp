#include "tessera/kernel/nvrtc/nvrtc.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/text.h"

namespace tessera::kernel::detail {
namespace {

// The functions of NVRTC and the driver that are used here. Their headers belong to a toolkit,
// which LibTorch does not need.
using Program = struct ProgramTag*;

class Library {
 public:
  static const Library& get() {
    static const Library library;
    return library;
  }

  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*destroy)(Program*);
  int (*log_size)(Program, size_t*);
  int (*log)(Program, char*);
  int (*binary_size)(Program, size_t*);
  int (*binary)(Program, char*);
  int (*load)(void** module, const void* image);
  int (*find)(void** function, void* module, const char* name);
  int (*launch)(void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, cudaStream_t, void** arguments, void** extra);

 private:
  Library() {
    const std::vector<void*> libraries = open();
    bind(libraries, "nvrtcCreateProgram", create);
    bind(libraries, "nvrtcCompileProgram", compile);
    bind(libraries, "nvrtcDestroyProgram", destroy);
    bind(libraries, "nvrtcGetProgramLogSize", log_size);
    bind(libraries, "nvrtcGetProgramLog", log);
    bind(libraries, "nvrtcGetCUBINSize", binary_size);
    bind(libraries, "nvrtcGetCUBIN", binary);
    bind(libraries, "cuModuleLoadData", load);
    bind(libraries, "cuModuleGetFunction", find);
    bind(libraries, "cuLaunchKernel", launch);
  }

  // LibTorch's own door to NVRTC knows where it is installed.
  static std::vector<void*> open() {
    std::vector<std::string> names;
    Dl_info here{};
    if (dladdr(reinterpret_cast<const void*>(&c10::cuda::getCurrentCUDAStream), &here) != 0) {
      const auto folder = std::filesystem::path(here.dli_fname).parent_path();
      names.push_back((folder / "libcaffe2_nvrtc.so").string());
    }
    names.insert(names.end(), {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "libcuda.so.1"});
    std::vector<void*> opened;
    for (const std::string& name : names) {
      void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr) opened.push_back(library);
    }
    return opened;
  }

  template <class Function>
  static void bind(const std::vector<void*>& libraries, const char* name, Function& to) {
    for (void* const library : libraries) {
      to = reinterpret_cast<Function>(dlsym(library, name));
      if (to != nullptr) return;
    }
    throw StateError(concat("no library has ", name, "; NVRTC comes with LibTorch for CUDA"));
  }
};

std::string architecture(at::Device device) {
  int major = 0;
  int minor = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device.index()));
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device.index()));
  return concat("--gpu-architecture=sm_", major, minor);
}

void check_driver(int code, const char* what, const std::string& name) {
  if (code == 0) return;
  throw StateError(concat("kernel '", name, "': ", what, " failed with the driver's error ", code));
}

std::string log_of(Program program) {
  const Library& library = Library::get();
  size_t size = 0;
  library.log_size(program, &size);
  std::string log(size, '\0');
  library.log(program, log.data());
  return log.substr(0, log.find('\0'));
}

std::vector<char> binary_of(const std::string& name, const std::string& source,
                            const std::vector<std::string>& flags) {
  const Library& library = Library::get();
  Program program = nullptr;
  library.create(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
  std::vector<const char*> texts;
  for (const std::string& flag : flags) texts.push_back(flag.c_str());
  const int code = library.compile(program, static_cast<int>(texts.size()), texts.data());
  const std::string log = log_of(program);
  std::vector<char> binary;
  if (code == 0) {
    size_t size = 0;
    library.binary_size(program, &size);
    binary.resize(size);
    library.binary(program, binary.data());
  }
  library.destroy(&program);
  if (code != 0) {
    throw StateError(
        concat("kernel '", name, "' does not compile with ", join(flags, " "), ": ", log));
  }
  return binary;
}

std::vector<std::string> all_flags(at::Device device, const std::string& flags) {
  std::vector<std::string> all{architecture(device), "--std=c++17"};
  for (const auto& flag : split(flags, ' ')) {
    if (!flag.empty()) all.emplace_back(flag);
  }
  return all;
}

// Binds the thread to the GPU's context, which the driver's functions do not do.
void enter(at::Device device) {
  thread_local std::map<c10::DeviceIndex, bool> entered;
  if (entered[device.index()]) return;
  C10_CUDA_CHECK(cudaFree(nullptr));
  entered[device.index()] = true;
}

}  // namespace

void* compiled(at::Device device, const std::string& name, const std::string& source,
               const std::string& flags) {
  static std::mutex mutex;
  static std::map<std::string, void*> known;
  const std::string key = concat(static_cast<int>(device.index()), " ", name, " ", flags);
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  const c10::cuda::CUDAGuard guard(device);
  enter(device);
  const std::vector<char> binary = binary_of(name, source, all_flags(device, flags));
  void* module = nullptr;
  void* function = nullptr;
  check_driver(Library::get().load(&module, binary.data()), "loading", name);
  check_driver(Library::get().find(&function, module, name.c_str()), "finding it", name);
  return known[key] = function;
}

void start(at::Device device, void* function, int64_t blocks, int64_t threads, void** arguments) {
  const c10::cuda::CUDAGuard guard(device);
  enter(device);
  const int code = Library::get().launch(
      function, static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 1, 1, 0,
      c10::cuda::getCurrentCUDAStream(device.index()).stream(), arguments, nullptr);
  check_driver(code, "starting", "");
}

}  // namespace tessera::kernel::detail
