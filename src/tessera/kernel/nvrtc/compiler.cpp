#include "tessera/kernel/nvrtc/compiler.h"

#include <dlfcn.h>

#include "tessera/base/check.h"
#include "tessera/base/text.h"

namespace tessera::kernel::detail {

Libraries::Libraries(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) opened_.push_back(library);
  }
}

void* Libraries::find(const char* name) const {
  for (void* const library : opened_) {
    void* const found = dlsym(library, name);
    if (found != nullptr) return found;
  }
  throw StateError(concat("no library has ", name, "; NVRTC comes with LibTorch for CUDA"));
}

Compiler::Compiler(const Libraries& libraries) {
  libraries.bind("nvrtcCreateProgram", create_);
  libraries.bind("nvrtcCompileProgram", compile_);
  libraries.bind("nvrtcDestroyProgram", destroy_);
  libraries.bind("nvrtcGetProgramLogSize", log_size_);
  libraries.bind("nvrtcGetProgramLog", log_);
  libraries.bind("nvrtcGetCUBINSize", binary_size_);
  libraries.bind("nvrtcGetCUBIN", binary_);
}

std::string Compiler::log_of(Program program) const {
  size_t size = 0;
  log_size_(program, &size);
  std::string log(size, '\0');
  log_(program, log.data());
  return log.substr(0, log.find('\0'));
}

Compiler::Result Compiler::compile(const std::string& name, const std::string& source,
                                   int generation, const std::string& flags) const {
  std::vector<std::string> all{concat("--gpu-architecture=sm_", generation), "--std=c++17"};
  for (const auto& flag : split(flags, ' ')) {
    if (!flag.empty()) all.emplace_back(flag);
  }
  Program program = nullptr;
  create_(&program, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
  std::vector<const char*> texts;
  for (const std::string& flag : all) texts.push_back(flag.c_str());
  const int code = compile_(program, static_cast<int>(texts.size()), texts.data());
  Result result{.binary = {}, .log = log_of(program)};
  if (code == 0) {
    size_t size = 0;
    binary_size_(program, &size);
    result.binary.resize(size);
    binary_(program, result.binary.data());
  }
  destroy_(&program);
  if (code != 0) {
    throw StateError(
        concat("kernel '", name, "' does not compile with ", join(all, " "), ": ", result.log));
  }
  return result;
}

}  // namespace tessera::kernel::detail
