#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/layer/unit.h"

namespace tessera TSR_API {

/// The parameters or buffers of a torch::nn module, with its names.
template <class Items>
Parameters listed_parameters(const Items& items, const std::string& prefix = "") {
  Parameters parameters;
  for (const auto& item : items) parameters.push_back({prefix + item.key(), item.value()});
  return parameters;
}

/// A torch::nn module, or a holder of one, as a unit with one input and one output tensor.
///
///   Model model = model_of({module_unit("net", net)}, loss);
template <class Module>
Unit module_unit(const std::string& name, Module module) {
  return {
      .name = name,
      .parameters = listed_parameters(module->named_parameters(), name + "."),
      .buffers = listed_parameters(module->named_buffers(), name + "."),
      .forward = [module](const at::Tensor& x, const Pass&) mutable { return module->forward(x); },
      .splits = false};
}

/// The modules of a torch::nn::Sequential as a list of units, with its names.
template <class Sequential>
std::vector<Unit> sequential_units(const Sequential& modules) {
  std::vector<Unit> units;
  for (size_t i = 0; i < modules->size(); ++i) {
    const auto module = modules->ptr(i);
    const std::string prefix = std::to_string(i) + ".";
    units.push_back({.name = std::to_string(i),
                     .parameters = listed_parameters(module->named_parameters(), prefix),
                     .buffers = listed_parameters(module->named_buffers(), prefix),
                     .forward =
                         [any = *(modules->begin() + i)](const at::Tensor& x, const Pass&) mutable {
                           return any.template forward<at::Tensor>(x);
                         },
                     .splits = false});
  }
  return units;
}

}  // namespace tessera
