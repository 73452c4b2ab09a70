// `tessera env`: prints the LibTorch version, back ends and devices of this build.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/version.h>
#include <CLI/CLI.hpp>

#include <iostream>

#include "cli/parse.h"
#include "cli/verbs.h"
#include "cli/version.h"

namespace tessera::cli {
namespace {

std::string devices() {
  const size_t count = at::hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  return count == 0 ? "cpu" : "cpu, " + std::to_string(count) + " cuda";
}

}  // namespace

int run_env(const std::vector<std::string>& arguments) {
  CLI::App app("Prints the LibTorch, back ends and devices of this build.", "tessera env");
  if (const auto done = parse(app, arguments)) return *done;
#ifdef TESSERA_CUDA
  constexpr const char* kBackends = "shm, gloo, nccl";
#else
  constexpr const char* kBackends = "shm, gloo";
#endif
  std::cout << version_text() << "libtorch " << TORCH_VERSION << " in " << TESSERA_TORCH_ROOT
            << "\n"
            << "back ends " << kBackends << "\n"
            << "devices " << devices() << "\n"
            << "threads " << at::get_num_threads() << "\n";
  return kOk;
}

}  // namespace tessera::cli
