#include "tessera/hook/deferred.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_set>

#include "tessera/base/check.h"
#include "tessera/hook/internal/operator_mode.h"
#include "tessera/hook/internal/tape.h"
#include "tessera/tensor/unallocated.h"

namespace tessera {

using namespace hook::detail;

namespace {

/// The default generator continues as if nothing had been drawn.
class KeptGenerator {
 public:
  KeptGenerator() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::scoped_lock lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  KeptGenerator(const KeptGenerator&) = delete;
  KeptGenerator& operator=(const KeptGenerator&) = delete;
  ~KeptGenerator() {
    const std::scoped_lock lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

std::vector<at::Tensor> deferred_parameters(const torch::nn::Module& module, const Tape& tape) {
  std::vector<at::Tensor> tensors;
  for (const at::Tensor& tensor : module.parameters()) {
    if (tensor.defined() && tape_of(tensor).get() == &tape) tensors.push_back(tensor);
  }
  return tensors;
}

void check_buffers(const torch::nn::Module& module, const Tape& tape,
                   const std::vector<at::Tensor>& parameters) {
  for (const auto& item : module.named_buffers()) {
    const at::Tensor& buffer = item.value();
    if (!buffer.defined() || tape_of(buffer).get() != &tape) continue;
    if (!tape.depends_on(buffer, parameters)) continue;
    throw StateError(concat("buffer '", item.key(),
                            "' is computed from a parameter, which has no values while a module is "
                            "built without memory; compute it after materialize()"));
  }
}

// Tensors of the tape that still exist, without the parameters.
std::vector<at::Tensor> other_tensors(const torch::nn::Module& module, const Tape& tape,
                                      const std::vector<at::Tensor>& parameters) {
  std::unordered_set<const c10::TensorImpl*> own;
  for (const at::Tensor& parameter : parameters) own.insert(parameter.unsafeGetTensorImpl());
  std::vector<at::Tensor> others = tape.alive();
  for (const at::Tensor& buffer : module.buffers()) {
    if (buffer.defined() && tape_of(buffer).get() == &tape) others.push_back(buffer);
  }
  std::erase_if(
      others, [&](const at::Tensor& tensor) { return own.contains(tensor.unsafeGetTensorImpl()); });
  return others;
}

// Parameters lose what memory they have; all other tensors get their values.
void settle(const torch::nn::Module& module, Tape& tape) {
  const at::NoGradGuard no_grad;
  const KeptGenerator kept;
  const std::vector<at::Tensor> parameters = deferred_parameters(module, tape);
  for (const at::Tensor& parameter : parameters) tape.take_memory(parameter);
  check_buffers(module, tape, parameters);
  std::vector<at::Tensor> others = other_tensors(module, tape, parameters);
  for (const at::Tensor& tensor : others) tape.leave_memory(tensor);
  std::erase_if(others, [&](const at::Tensor& tensor) {
    return !is_unallocated(tensor) || tape.depends_on(tensor, parameters);
  });
  const std::vector<at::Tensor> values = tape.values(others);
  for (size_t i = 0; i < others.size(); ++i) others[i].set_data(values[i]);
}

void allocate(torch::nn::Module& module, at::Device device) {
  for (at::Tensor& parameter : module.parameters()) {
    if (!is_unallocated(parameter)) continue;
    parameter.set_data(at::empty(parameter.sizes(), parameter.options().device(device)));
  }
}

/// Parameters of one call of build_deferred().
struct BuiltTogether {
  std::shared_ptr<Tape> tape;
  std::vector<at::Tensor> parameters;
};

std::vector<BuiltTogether> by_tape(const torch::nn::Module& module) {
  std::vector<BuiltTogether> parts;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& parameter = item.value();
    if (!is_unallocated(parameter)) continue;
    const std::shared_ptr<Tape> tape = tape_of(parameter);
    if (tape == nullptr) {
      throw StateError(concat("parameter '", item.key(),
                              "' has no memory, and build_deferred() did not build it; give "
                              "materialize() a function that sets the values"));
    }
    auto part = std::ranges::find(parts, tape, &BuiltTogether::tape);
    if (part == parts.end()) part = parts.insert(part, {tape, {}});
    part->parameters.push_back(parameter);
  }
  return parts;
}

void replay(torch::nn::Module& module, at::Device device) {
  for (auto& [tape, parameters] : by_tape(module)) {
    std::vector<at::Tensor> values = tape->values_in_order(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].set_data(values[i].to(device));
      values[i].reset();
    }
  }
}

void move_to(torch::nn::Module& module, at::Device device) {
  std::vector<at::Tensor> tensors = module.parameters();
  for (const at::Tensor& buffer : module.buffers()) tensors.push_back(buffer);
  for (at::Tensor& tensor : tensors) {
    if (tensor.defined() && tensor.device() != device) tensor.set_data(tensor.to(device));
  }
}

thread_local Tape* current = nullptr;

void record(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  current->call(op, *stack);
}

/// While it lives, the operators of this thread go to the tape.
class [[nodiscard]] Recording {
 public:
  explicit Recording(Tape& tape) { current = &tape; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() { current = nullptr; }

 private:
  HandleOperators handle_{record};
};

}  // namespace

void run_deferred(const std::function<torch::nn::Module&()>& build) {
  if (current != nullptr) {
    build();  // Part of the outer module.
    return;
  }
  const auto tape = std::make_shared<Tape>();
  torch::nn::Module* module = nullptr;
  try {
    const Recording recording(*tape);
    module = &build();
  } catch (const c10::Error& error) {
    const std::string_view words = error.what_without_backtrace();
    if (words.find("not allocated yet") == std::string_view::npos) throw;
    throw StateError(
        "the constructor uses the memory of a tensor (data_ptr or accessor), which has none while "
        "a module is built without memory; use operators instead, or do that after materialize()");
  }
  settle(*module, *tape);
}

void materialize(torch::nn::Module& module, at::Device device, const ModuleInit& init) {
  const at::NoGradGuard no_grad;
  if (init) {
    allocate(module, device);
  } else {
    replay(module, device);
  }
  move_to(module, device);
  if (init) init(module);
}

}  // namespace tessera
