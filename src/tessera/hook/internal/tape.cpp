#include "tessera/hook/internal/tape.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/tensor/unallocated.h"

namespace tessera::hook::detail {
namespace {

/// New tensors up to this size have memory until an operator uses them, since code may write to it.
constexpr size_t kSmallBytes = size_t{1} << 20;
/// The memory's bytes until then.
constexpr unsigned char kUnwritten = 0xA5;

std::span<unsigned char> bytes_of(const at::Tensor& tensor) {
  return {static_cast<unsigned char*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

/// What the storage of a deferred tensor knows of it, instead of memory. set_data ends that.
struct Mark {
  std::shared_ptr<Tape> tape;
  at::Tensor twin;
  size_t call = 0;           // That made it.
  c10::DataPtr memory = {};  // Of a small tensor.
};

void delete_mark(void* mark) {
  delete static_cast<Mark*>(mark);
}

c10::StorageImpl& storage_impl(const at::Tensor& tensor) {
  return *tensor.storage().unsafeGetStorageImpl();
}

// Null if the tensor is not deferred.
Mark* mark_of(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return nullptr;
  const c10::DataPtr& data = storage_impl(tensor)._mutable_data_ptr_no_checks();
  return data.get_deleter() == &delete_mark ? static_cast<Mark*>(data.get_context()) : nullptr;
}

void set_mark(const at::Tensor& tensor, std::unique_ptr<Mark> mark) {
  void* const memory = mark->memory.get();
  storage_impl(tensor).set_data_ptr_noswap({memory, mark.release(), &delete_mark, tensor.device()});
}

std::string name_of(const c10::OperatorHandle& op) {
  return op.operator_name().name;
}

const c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return &storage_impl(tensor);
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

// The tensors that the operator changes in place.
std::vector<at::Tensor> written(const c10::OperatorHandle& op, const Stack& arguments) {
  std::vector<at::Tensor> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!is_written(op.schema().arguments()[i])) continue;
    for (const at::Tensor& tensor : tensors_in(arguments[i])) tensors.push_back(tensor);
  }
  return tensors;
}

bool returns_tensors(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  return std::ranges::all_of(returns, [](const c10::Argument& result) {
    const auto& type = result.type();
    return type->isSubtypeOf(*c10::TensorType::get()) ||
           type->isSubtypeOf(*c10::ListType::ofTensors());
  });
}

std::optional<at::Device> device_argument(const c10::OperatorHandle& op, const Stack& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_device = op.schema().arguments()[i].name() == "device";
    if (is_device && arguments[i].isDevice()) return arguments[i].toDevice();
  }
  return std::nullopt;
}

at::Tensor on_meta(const at::Tensor& tensor) {
  at::Tensor meta = at::empty_strided(tensor.sizes(), tensor.strides(),
                                      at::dtype(tensor.scalar_type()).device(at::kMeta));
  meta.unsafeGetTensorImpl()->set_wrapped_number(tensor.unsafeGetTensorImpl()->is_wrapped_number());
  return meta;
}

Stack take_arguments(const c10::OperatorHandle& op, Stack& stack) {
  const auto count = static_cast<int64_t>(op.schema().arguments().size());
  Stack arguments(stack.end() - count, stack.end());
  stack.erase(stack.end() - count, stack.end());
  return arguments;
}

void append(Stack& stack, const Stack& values) {
  stack.insert(stack.end(), values.begin(), values.end());
}

Stack run(const c10::OperatorHandle& op, Stack arguments) {
  op.callBoxed(arguments);
  return arguments;
}

// Shapes of the results, without values. Nothing if they depend on values.
std::optional<Stack> run_on_meta(const c10::OperatorHandle& op, Stack arguments) {
  const bool makes = tensors_in(arguments).empty();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool is_device = op.schema().arguments()[i].name() == "device";
    if (is_device && (makes || arguments[i].isDevice())) arguments[i] = at::Device(at::kMeta);
  }
  try {
    return run(op, with_tensors(arguments, [](const at::Tensor& tensor) {
                 return tensor.is_meta() ? tensor : on_meta(tensor);
               }));
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::shared_ptr<Tape> tape_of(const at::Tensor& tensor) {
  Mark* const mark = mark_of(tensor);
  return mark == nullptr ? nullptr : mark->tape;
}

at::Tensor Tape::twin_of(const at::Tensor& tensor) const {
  Mark* const mark = mark_of(tensor);
  return mark != nullptr && mark->tape.get() == this ? mark->twin : at::Tensor();
}

void Tape::call(const c10::OperatorHandle& op, Stack& stack) {
  const at::NoGradGuard no_grad;
  const Stack arguments = take_arguments(op, stack);
  const std::vector<at::Tensor> tensors = tensors_in(arguments);
  const auto is_ours = [&](const at::Tensor& tensor) { return twin_of(tensor).defined(); };
  const bool makes = tensors.empty() && !op.schema().returns().empty() && returns_tensors(op);
  if (!makes && std::ranges::none_of(tensors, is_ours)) {
    append(stack, run(op, arguments));
    return;
  }
  for (const at::Tensor& tensor : tensors) take_memory(tensor);
  const Stack twins = with_tensors(arguments, [&](const at::Tensor& tensor) {
    const at::Tensor twin = twin_of(tensor);
    return twin.defined() ? twin : tensor;
  });
  const std::optional<Stack> made =
      std::ranges::all_of(written(op, arguments), is_ours) ? run_on_meta(op, twins) : std::nullopt;
  if (!made) {
    run_now(op, arguments, stack);
  } else if (!returns_tensors(op)) {
    append(stack, *made);
  } else {
    record(op, twins, *made);
    append(stack, results(op, arguments, *made));
  }
}

void Tape::record(const c10::OperatorHandle& op, const Stack& arguments, const Stack& results) {
  Call call{.op = op, .arguments = arguments, .made = tensors_in(results)};
  for (const at::Tensor& tensor : tensors_in(arguments)) {
    if (tensor.is_meta()) call.read.push_back(tensor);
  }
  call.changed = written(op, arguments);
  call.changed.insert(call.changed.end(), call.made.begin(), call.made.end());
  calls_.push_back(std::move(call));
}

// Deferred tensors for what the operator made on the meta device, and its own arguments for what it
// has changed.
Stack Tape::results(const c10::OperatorHandle& op, const Stack& arguments, const Stack& made) {
  const std::vector<at::Tensor> given = tensors_in(arguments);
  for (const at::Tensor& tensor : given) {
    const at::Tensor twin = twin_of(tensor);
    if (!twin.defined()) continue;
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(twin.sizes(), twin.strides());
  }
  return with_tensors(made, [&](const at::Tensor& twin) {
    const auto same = std::ranges::find_if(
        given, [&](const at::Tensor& tensor) { return twin_of(tensor).is_same(twin); });
    return same != given.end() ? *same : deferred(op, arguments, twin);
  });
}

at::Tensor Tape::deferred(const c10::OperatorHandle& op, const Stack& arguments,
                          const at::Tensor& twin) {
  at::Device device = at::kCPU;
  for (const at::Tensor& tensor : tensors_in(arguments)) {
    if (twin_of(tensor).defined()) device = tensor.device();
  }
  device = device_argument(op, arguments).value_or(device);
  const bool may_be_written =
      name_of(op) == "aten::empty" && device.is_cpu() && twin.nbytes() <= kSmallBytes;
  auto mark = std::make_unique<Mark>(shared_from_this(), twin, calls_.size() - 1);
  at::Tensor tensor = may_be_written ? run(op, arguments).at(0).toTensor()
                                     : unallocated(twin.sizes(), twin.options().device(device));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(twin.sizes(), twin.strides());
  if (may_be_written) {
    std::ranges::fill(bytes_of(tensor), kUnwritten);
    mark->memory = storage_impl(tensor).set_data_ptr({nullptr, device});
  }
  set_mark(tensor, std::move(mark));
  alive_.emplace_back(tensor.getIntrusivePtr());
  return tensor;
}

void Tape::run_now(const c10::OperatorHandle& op, const Stack& arguments, Stack& stack) const {
  Twins needed;
  for (const at::Tensor& tensor : tensors_in(arguments)) {
    const at::Tensor twin = twin_of(tensor);
    if (twin.defined()) needed.push_back(twin);
  }
  const Calls calls = history(needed);
  const bool changes = std::ranges::any_of(
      written(op, arguments), [&](const at::Tensor& tensor) { return twin_of(tensor).defined(); });
  if (changes || is_random(calls)) {
    throw StateError(
        concat(name_of(op),
               " reads a tensor that has no values while a module is built without memory; "
               "do that after materialize(), or build the module without build_deferred()"));
  }
  const Values values = replay(calls, needed);
  append(stack, run(op, with_tensors(arguments, [&](const at::Tensor& tensor) {
                      const at::Tensor twin = twin_of(tensor);
                      return twin.defined() ? values.at(twin.unsafeGetTensorImpl()) : tensor;
                    })));
}

// The calls that made the values of these tensors: all that made or changed the same memory, and
// theirs in turn.
Tape::Calls Tape::history(const Twins& twins) const {
  std::set<const c10::StorageImpl*> needed;
  for (const at::Tensor& twin : twins) needed.insert(storage_of(twin));
  Calls calls;
  for (size_t i = calls_.size(); i-- > 0;) {
    const bool matters = std::ranges::any_of(calls_[i].changed, [&](const at::Tensor& twin) {
      return needed.contains(storage_of(twin));
    });
    if (!matters) continue;
    for (const at::Tensor& twin : calls_[i].read) needed.insert(storage_of(twin));
    calls.push_back(i);
  }
  std::ranges::reverse(calls);
  return calls;
}

bool Tape::is_random(const Calls& calls) const {
  return std::ranges::any_of(calls, [&](size_t i) {
    return calls_[i].op && calls_[i].op->hasTag(at::Tag::nondeterministic_seeded);
  });
}

// Each value lives until its last use, unless it is wanted.
Tape::Values Tape::replay(const Calls& calls, const Twins& wanted) const {
  const at::NoGradGuard no_grad;
  std::unordered_map<const c10::TensorImpl*, size_t> last_use;
  for (const size_t i : calls) {
    for (const at::Tensor& twin : calls_[i].used()) last_use[twin.unsafeGetTensorImpl()] = i;
  }
  for (const at::Tensor& twin : wanted) last_use.erase(twin.unsafeGetTensorImpl());
  Values values;
  for (const size_t i : calls) {
    calls_[i].run(values);
    for (const at::Tensor& twin : calls_[i].used()) {
      const auto use = last_use.find(twin.unsafeGetTensorImpl());
      if (use != last_use.end() && use->second == i) values.erase(use->first);
    }
  }
  return values;
}

std::vector<at::Tensor> Tape::Call::used() const {
  std::vector<at::Tensor> twins = read;
  twins.insert(twins.end(), made.begin(), made.end());
  return twins;
}

void Tape::Call::run(Values& values) const {
  Stack results;
  if (op) {
    results = detail::run(*op, with_tensors(arguments, [&](const at::Tensor& tensor) {
      return tensor.is_meta() ? values.at(tensor.unsafeGetTensorImpl()) : tensor;
    }));
  } else {
    results.emplace_back(contents.clone());
  }
  const std::vector<at::Tensor> tensors = tensors_in(results);
  for (size_t i = 0; i < tensors.size(); ++i) values[made[i].unsafeGetTensorImpl()] = tensors[i];
}

std::vector<at::Tensor> Tape::values_of(const std::vector<at::Tensor>& tensors,
                                        const std::function<Calls(const Twins&)>& calls) const {
  Twins twins;
  for (const at::Tensor& tensor : tensors) twins.push_back(twin_of(tensor));
  const Values values = replay(calls(twins), twins);
  std::vector<at::Tensor> found;
  for (const at::Tensor& twin : twins) found.push_back(values.at(twin.unsafeGetTensorImpl()));
  return found;
}

std::vector<at::Tensor> Tape::values(const std::vector<at::Tensor>& tensors) const {
  return values_of(tensors, [&](const Twins& twins) { return history(twins); });
}

std::vector<at::Tensor> Tape::values_in_order(const std::vector<at::Tensor>& tensors) const {
  return values_of(tensors, [&](const Twins&) {
    Calls all(calls_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  });
}

bool Tape::depends_on(const at::Tensor& tensor, const std::vector<at::Tensor>& others) const {
  const Calls calls = history({twin_of(tensor)});
  return std::ranges::any_of(others, [&](const at::Tensor& other) {
    const c10::StorageImpl* const storage = storage_of(twin_of(other));
    return std::ranges::any_of(calls, [&](size_t i) {
      return std::ranges::any_of(
          calls_[i].changed, [&](const at::Tensor& twin) { return storage_of(twin) == storage; });
    });
  });
}

void Tape::take_memory(const at::Tensor& tensor) {
  Mark* const mark = mark_of(tensor);
  if (mark == nullptr || mark->tape.get() != this || !mark->memory) return;
  if (std::ranges::any_of(bytes_of(tensor), [](auto byte) { return byte != kUnwritten; })) {
    Call& call = calls_[mark->call];
    call.op.reset();
    call.arguments.clear();
    call.contents = tensor.detach().clone();
  }
  const at::Tensor empty = unallocated(tensor.sizes(), tensor.options());
  set_mark(empty, std::make_unique<Mark>(mark->tape, mark->twin, mark->call));
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(empty.storage());
}

void Tape::leave_memory(const at::Tensor& tensor) const {
  Mark* const mark = mark_of(tensor);
  if (mark == nullptr || mark->tape.get() != this || !mark->memory) return;
  c10::DataPtr memory = std::move(mark->memory);
  storage_impl(tensor).set_data_ptr_noswap(std::move(memory));
}

std::vector<at::Tensor> Tape::alive() const {
  std::vector<at::Tensor> tensors;
  for (const WeakTensor& weak : alive_) {
    auto tensor = weak.lock();
    if (tensor.defined()) tensors.emplace_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace tessera::hook::detail
