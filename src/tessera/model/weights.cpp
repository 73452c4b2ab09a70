#include "tessera/model/weights.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/weight_files.h"

namespace tessera {
namespace {

struct DTypeRow {
  DType stored;
  at::ScalarType dtype;
  std::string_view config_name;
};

constexpr std::array kDTypes{
    DTypeRow{DType::kF64, at::kDouble, "float64"},
    DTypeRow{DType::kF32, at::kFloat, "float32"},
    DTypeRow{DType::kBF16, at::kBFloat16, "bfloat16"},
    DTypeRow{DType::kF16, at::kHalf, "float16"},
};

const DTypeRow& row_of(at::ScalarType dtype) {
  const auto* row = std::ranges::find(kDTypes, dtype, &DTypeRow::dtype);
  TSR_CHECK(row != kDTypes.end(), "dtype ", dtype,
            " is not one of Double, Float, BFloat16, Half, which weight files hold");
  return *row;
}

std::string shape_text(at::IntArrayRef shape) {
  return concat("[", join(shape, ", "), "]");
}

at::ScalarType dtype_of(const TensorSpec& spec) {
  const auto* row = std::ranges::find(kDTypes, spec.dtype, &DTypeRow::stored);
  if (row != kDTypes.end()) return row->dtype;
  throw DataError(concat("'", spec.name, "' has dtype ", to_string(spec.dtype),
                         "; weights are read from F64, F32, BF16 or F16"));
}

void check_tensor(const TensorSpec& spec, const at::Tensor& parameter) {
  dtype_of(spec);
  if (at::IntArrayRef(spec.shape) == parameter.sizes()) return;
  throw DataError(concat("'", spec.name, "' has shape ", shape_text(spec.shape),
                         " in the weight files; the config asks for ",
                         shape_text(parameter.sizes())));
}

// The kernel gives memory out page by page as it is written, which takes longer than the reading.
void read_by_threads(const WeightFiles& files, const std::string& name,
                     std::span<std::byte> memory) {
  constexpr size_t kLeast = 4 << 20;  // Bytes that are worth a thread.
  const auto threads = static_cast<size_t>(at::get_num_threads());
  const size_t shares = std::clamp(memory.size() / kLeast, size_t{1}, threads);
  const auto begin_of = [&](size_t share) { return memory.size() / shares * share; };
  const auto read = [&](size_t share) {
    const size_t begin = begin_of(share);
    const size_t end = share + 1 == shares ? memory.size() : begin_of(share + 1);
    files.read(name, begin, memory.subspan(begin, end - begin));
  };
  std::vector<std::future<void>> others;
  for (size_t share = 1; share < shares; ++share) {
    others.push_back(std::async(std::launch::async, read, share));
  }
  read(0);
  for (std::future<void>& other : others) other.get();
}

TensorSpec spec_of(const NamedParameter& parameter) {
  return {.name = parameter.name,
          .dtype = row_of(parameter.tensor.scalar_type()).stored,
          .shape = parameter.tensor.sizes().vec()};
}

}  // namespace

void check_weights(const WeightFiles& files, const NamedParameters& parameters,
                   const std::function<bool(std::string_view)>& passed_over) {
  std::vector<std::string> known;
  for (const NamedParameter& parameter : parameters) {
    check_tensor(files.spec(parameter.name), parameter.tensor);
    known.push_back(parameter.name);
  }
  std::ranges::sort(known);
  for (const std::string& name : files.names()) {
    if (std::ranges::binary_search(known, name) || passed_over(name)) continue;
    throw DataError(concat("the weight files hold '", visible(name),
                           "', which the model of this config does not have",
                           did_you_mean(name, known)));
  }
}

at::Tensor read_tensor(const WeightFiles& files, const std::string& name, const at::Tensor& like) {
  const TensorSpec& spec = files.spec(name);
  const at::Tensor stored = at::empty(spec.shape, dtype_of(spec));
  const std::span memory(static_cast<std::byte*>(stored.mutable_data_ptr()), stored.nbytes());
  read_by_threads(files, name, memory);
  return stored.to(like.options());
}

void write_tensors(const NamedParameters& parameters, const std::string& folder,
                   int64_t shard_bytes, const ParameterSource& source) {
  std::vector<TensorSpec> specs;
  std::map<std::string, const NamedParameter*> by_name;
  for (const NamedParameter& parameter : parameters) {
    specs.push_back(spec_of(parameter));
    by_name[parameter.name] = &parameter;
  }
  const auto write = [&](const TensorSpec& spec, SafetensorsWriter& file) {
    const at::Tensor values = source(*by_name.at(spec.name)).detach().to(at::kCPU).contiguous();
    file.write({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
  };
  write_weight_files(folder, specs, shard_bytes, write);
}

std::string config_name(at::ScalarType dtype) {
  return std::string(row_of(dtype).config_name);
}

}  // namespace tessera
