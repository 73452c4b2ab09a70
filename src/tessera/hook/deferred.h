#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <utility>

#include "tessera/base/export.h"

namespace torch::nn {
class Module;
}

/// A torch::nn::Module that is built without memory for its parameters. docs/deferred.md.
namespace tessera TSR_API {

/// Builds a module whose parameters have shapes but no memory and no values, however large they
/// are. Buffers and other tensors that the module keeps have their values.
///
///   auto net = build_deferred([] { return Net(16384); });  // Takes no memory.
///   materialize(*net, at::kCPU);                           // As if built by Net(16384).
///
/// `build` returns a module holder or a std::shared_ptr of a module. It runs once, on this thread;
/// the operators that it calls are recorded. StateError if one of them reads values that depend on
/// random numbers, or if a buffer does that depends on a parameter.
template <class Build>
auto build_deferred(Build&& build);

/// Sets the values of a module; it gets all parameters of it, with memory and without values.
using ModuleInit = std::function<void(torch::nn::Module&)>;

/// Gives memory on a device to the parameters of a module that was built without, and moves its
/// buffers there. Without `init` the recorded operators run, with the same random numbers as in
/// ordinary construction: after the same torch::manual_seed() the values have the same bits.
///
/// StateError if a parameter has no memory, was not built by build_deferred(), and there is no
/// `init`.
void materialize(torch::nn::Module& module, at::Device device, const ModuleInit& init = {});

/// Runs the function, which builds and returns a module, as build_deferred() does.
void run_deferred(const std::function<torch::nn::Module&()>& build);

template <class Build>
auto build_deferred(Build&& build) {
  std::optional<decltype(build())> module;
  run_deferred([&]() -> torch::nn::Module& { return *module.emplace(build()); });
  return std::move(*module);
}

}  // namespace tessera
