#include "tessera/model/weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <vector>

#include "tessera/base/check.h"
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

// The bytes of a file may lie at any address; tensors want theirs aligned.
bool is_aligned(const std::byte* data, size_t size) {
  return reinterpret_cast<uintptr_t>(data) % size == 0;
}

at::Tensor copied(std::span<const std::byte> bytes, at::IntArrayRef shape, at::ScalarType dtype) {
  at::Tensor copy = at::empty(shape, dtype);
  if (!bytes.empty()) std::memcpy(copy.mutable_data_ptr(), bytes.data(), bytes.size());
  return copy;
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
    throw DataError(concat("the weight files hold '", without_controls(name),
                           "', which the model of this config does not have",
                           did_you_mean(name, known)));
  }
}

at::Tensor read_tensor(const WeightFiles& files, const std::string& name, const at::Tensor& like) {
  const TensorSpec& spec = files.spec(name);
  const at::ScalarType dtype = dtype_of(spec);
  const std::span<const std::byte> bytes = files.bytes(name);
  const bool converted = dtype != like.scalar_type() || !like.is_cpu();
  if (!converted || !is_aligned(bytes.data(), at::elementSize(dtype))) {
    return copied(bytes, spec.shape, dtype).to(like.options());
  }
  // from_blob wants to be able to write; nothing does.
  void* const data = const_cast<std::byte*>(bytes.data());
  return at::from_blob(data, spec.shape, dtype).to(like.options());
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
