#include "tessera/checkpoint/load.h"

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/checkpoint/internal/dtypes.h"
#include "tessera/comm/objects.h"

namespace tessera {

using namespace checkpoint::detail;

namespace {

void check_shape(const Checkpoint& from, const std::string& name,
                 const std::vector<int64_t>& shape) {
  const std::vector<int64_t>& saved = from.tensor(name).shape;
  if (saved == shape) return;
  throw DataError(concat("'", name, "' has shape [", join(saved, ", "), "] in ", from.folder(),
                         ", but [", join(shape, ", "),
                         "] is needed; is it a checkpoint of another model?"));
}

std::span<std::byte> memory_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

// `flat` has the elements of the boxes, one after the other.
void read_boxes(const Checkpoint& from, const std::string& name, const std::vector<Box>& boxes,
                const at::Tensor& flat) {
  const at::ScalarType dtype = torch_dtype(from.tensor(name).dtype);
  const bool direct = flat.device().is_cpu() && flat.scalar_type() == dtype;
  int64_t begin = 0;
  for (const Box& box : boxes) {
    const at::Tensor to = flat.narrow(0, begin, box.numel());
    const at::Tensor read = direct ? to : at::empty({box.numel()}, dtype);
    from.read(name, box, memory_of(read));
    if (!direct) to.copy_(read);
    begin += box.numel();
  }
}

void load_as(const Checkpoint& from, const std::string& name, const CheckpointEntry& entry) {
  if (entry.boxes.empty()) return;
  check_shape(from, name, entry.shape);
  const at::NoGradGuard no_grad;
  const at::Tensor target = entry.tensor.detach();
  const at::Tensor flat =
      target.is_contiguous() ? target.view(-1) : at::empty({target.numel()}, target.options());
  read_boxes(from, name, entry.boxes, flat);
  if (!target.is_contiguous()) target.copy_(flat.view(target.sizes()));
}

int64_t bits_of(at::ScalarType dtype) {
  return static_cast<int64_t>(c10::elementSize(dtype)) * 8;
}

// The saved tensor that has the values of a parameter most exactly.
std::string source_of(const Checkpoint& from, const Parameter& parameter) {
  const std::string master = state_name(parameter.name, "master");
  const bool wider =
      bits_of(parameter.tensor.scalar_type()) > bits_of(from.tensor(parameter.name).dtype);
  return wider && from.contains(master) ? master : parameter.name;
}

std::string damage_of(const Checkpoint& checkpoint, const Group& group) {
  const auto size = static_cast<size_t>(group.size());
  std::string damage;
  for (auto i = static_cast<size_t>(group.rank().value); i < checkpoint.index().files.size();
       i += size) {
    try {
      checkpoint.verify(i);
    } catch (const DataError& error) {
      damage += concat(damage.empty() ? "" : "\n", error.what());
    }
  }
  return damage;
}

}  // namespace

void load(const Checkpoint& checkpoint, const CheckpointEntries& entries) {
  for (const CheckpointEntry& entry : entries) load_as(checkpoint, entry.name, entry);
}

void load(const std::string& folder, const CheckpointEntries& entries, const Group& group) {
  const Checkpoint checkpoint(folder);
  verify(checkpoint, group);
  load(checkpoint, entries);
}

void load_parameters(const Checkpoint& checkpoint, const Parameters& parameters) {
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    const at::Tensor values = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
    const CheckpointEntry entry(parameter.name, values, parameter.place.part);
    if (!entry.boxes.empty()) load_as(checkpoint, source_of(checkpoint, parameter), entry);
    tensor.mutable_grad().reset();
    tensor.set_data(values);
  }
}

void load_optimizer(const Checkpoint& checkpoint, const Optimizer& optimizer,
                    const Parameters& parameters) {
  for (const CheckpointEntry& entry : entries_of(optimizer, parameters)) {
    constexpr std::string_view kPrefix = "optim.state.";
    constexpr std::string_view kMaster = ".master";
    const bool own = !entry.name.ends_with(kMaster) || checkpoint.contains(entry.name);
    const size_t length = entry.name.size() - kPrefix.size() - kMaster.size();
    load_as(checkpoint, own ? entry.name : entry.name.substr(kPrefix.size(), length), entry);
  }
}

void verify(const Checkpoint& checkpoint, const Group& group) {
  std::string damage;
  for (const std::string& one : all_gather_object(damage_of(checkpoint, group), group)) {
    if (!one.empty()) damage += (damage.empty() ? "" : "\n") + one;
  }
  if (!damage.empty()) throw DataError(damage);
}

void check_model(const Checkpoint& checkpoint, const Parameters& parameters) {
  std::vector<std::string> known;
  for (const Parameter& parameter : parameters) {
    known.push_back(parameter.name);
    check_shape(checkpoint, parameter.name,
                CheckpointEntry(parameter.name, parameter.tensor, parameter.place.part).shape);
  }
  std::ranges::sort(known);
  for (const auto& [name, tensor] : checkpoint.index().tensors) {
    if (name.starts_with("optim.") || std::ranges::binary_search(known, name)) continue;
    throw DataError(concat(checkpoint.folder(), " holds '", visible(name),
                           "', which this model does not have", did_you_mean(name, known),
                           "; is it a checkpoint of another model?"));
  }
}

}  // namespace tessera
