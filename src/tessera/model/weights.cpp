#include "tessera/model/weights.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <future>
#include <map>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/terminal_text.h"
#include "tessera/format/weight_files.h"
#include "tessera/tensor/random.h"

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
            " is not supported in weight files; use Double, Float, BFloat16 or Half");
  return *row;
}

std::string shape_text(at::IntArrayRef shape) {
  return concat("[", join(shape, ", "), "]");
}

at::ScalarType dtype_of(const TensorSpec& spec) {
  const auto* row = std::ranges::find(kDTypes, spec.dtype, &DTypeRow::stored);
  if (row != kDTypes.end()) return row->dtype;
  throw DataError(concat("'", spec.name, "' has dtype ", to_string(spec.dtype),
                         "; weights must be F64, F32, BF16 or F16"));
}

void check_tensor(const TensorSpec& spec, const Part& part) {
  dtype_of(spec);
  if (spec.shape == part.shape()) return;
  throw DataError(concat("'", spec.name, "' has shape ", shape_text(spec.shape),
                         " in the weight files; the config needs ", shape_text(part.shape())));
}

// The kernel allocates memory page by page on the first write, which takes longer than the read.
void read_by_threads(const WeightFiles& files, const std::string& name, size_t from,
                     std::span<std::byte> memory) {
  constexpr size_t kLeast = 4 << 20;  // Fewest bytes per thread.
  const auto threads = static_cast<size_t>(at::get_num_threads());
  const size_t shares = std::clamp(memory.size() / kLeast, size_t{1}, threads);
  const auto begin_of = [&](size_t share) { return memory.size() / shares * share; };
  const auto read = [&](size_t share) {
    const size_t begin = begin_of(share);
    const size_t end = share + 1 == shares ? memory.size() : begin_of(share + 1);
    files.read(name, from + begin, memory.subspan(begin, end - begin));
  };
  std::vector<std::future<void>> others;
  for (size_t share = 1; share < shares; ++share) {
    others.push_back(std::async(std::launch::async, read, share));
  }
  read(0);
  for (std::future<void>& other : others) other.get();
}

// The elements of the part, in the file's dtype.
at::Tensor read_part(const WeightFiles& files, const std::string& name, const Part& part) {
  const at::Tensor stored = at::empty({part.numel()}, dtype_of(files.spec(name)));
  std::span memory(static_cast<std::byte*>(stored.mutable_data_ptr()), stored.nbytes());
  const size_t width = stored.element_size();
  for (const Span& span : part.spans()) {
    const size_t bytes = static_cast<size_t>(span.size()) * width;
    read_by_threads(files, name, static_cast<size_t>(span.begin) * width, memory.first(bytes));
    memory = memory.subspan(bytes);
  }
  return stored;
}

TensorSpec spec_of(const Parameter& parameter) {
  return {.name = parameter.name,
          .dtype = row_of(parameter.tensor.scalar_type()).stored,
          .shape = parameter.place.part.shape()};
}

}  // namespace

void check_weights(const WeightFiles& files, const Parameters& parameters,
                   const std::function<bool(std::string_view)>& passed_over) {
  std::vector<std::string> known;
  for (const Parameter& parameter : parameters) {
    check_tensor(files.spec(parameter.name), parameter.place.part);
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

void replace_data(const at::Tensor& tensor, const at::Tensor& values) {
  const at::NoGradGuard no_grad;
  tensor.mutable_grad().reset();
  tensor.set_data(values);
}

void initialize(const Parameter& parameter, const RandomKey& key,
                const Distribution& distribution) {
  const at::Tensor values = at::empty_like(parameter.tensor);
  init_(values, parameter.place.part.spans(), key, distribution);
  replace_data(parameter.tensor, values);
}

void load(const Parameter& parameter, const WeightFiles& files) {
  const at::Tensor& tensor = parameter.tensor;
  const at::Tensor values = read_part(files, parameter.name, parameter.place.part);
  replace_data(tensor, values.view(tensor.sizes()).to(tensor.options()));
}

void write_tensors(const Parameters& parameters, const std::string& folder, int64_t shard_bytes,
                   const ParameterSource& source) {
  std::vector<TensorSpec> specs;
  std::map<std::string, const Parameter*> by_name;
  for (const Parameter& parameter : parameters) {
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
