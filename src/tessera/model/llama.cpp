#include "tessera/model/llama.h"

#include <algorithm>
#include <filesystem>

#include "tessera/base/check.h"
#include "tessera/format/new_file.h"
#include "tessera/model/weights.h"
#include "tessera/tensor/unallocated.h"

namespace tessera {

Llama::Llama(const LlamaConfig& config, const LlamaOptions& options)
    : config_(config),
      options_(options),
      units_(llama_units(config, options, {0, num_llama_units(config)})) {}

at::Tensor Llama::forward(const at::Tensor& tokens, const Pass& pass) const {
  at::Tensor x = tokens;
  for (const Unit& unit : units_) x = unit.forward(x, pass);
  return x;
}

Parameters Llama::named_parameters() const {
  return parameters_of(units_);
}

int64_t Llama::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : named_parameters()) count += parameter.tensor.numel();
  return count;
}

void Llama::to(at::ScalarType dtype) {
  TSR_CHECK(at::isFloatingType(dtype), "a Llama of dtype ", dtype,
            " cannot be trained; choose a floating-point dtype");
  options_.dtype = dtype;
  move();
}

void Llama::to(at::Device device) {
  options_.device = device;
  move();
}

void Llama::move() const {
  const at::TensorOptions wanted = at::device(options_.device).dtype(options_.dtype);
  for (const Parameter& parameter : named_parameters()) {
    const at::Tensor& tensor = parameter.tensor;
    replace_data(tensor, tessera::is_unallocated(tensor) ? unallocated(tensor.sizes(), wanted)
                                                         : tensor.detach().to(wanted));
  }
}

bool Llama::is_unallocated() const {
  const Parameters all = named_parameters();
  return std::ranges::any_of(all, [](const auto& p) { return tessera::is_unallocated(p.tensor); });
}

void Llama::initialize(uint64_t seed) {
  fill_llama(named_parameters(), config_, seed);
}

void Llama::load(const WeightFiles& files) {
  fill_llama(named_parameters(), config_, files);
}

void Llama::save(const std::string& folder, int64_t shard_bytes) const {
  if (is_unallocated())
    throw StateError("cannot save a Llama without weights; call load() or initialize() first");
  save(folder, shard_bytes, own_values);
}

void Llama::save(const std::string& folder, int64_t shard_bytes,
                 const ParameterSource& source) const {
  write_tensors(named_parameters(), folder, shard_bytes, source);
  NewFile file(std::filesystem::path(folder) / "config.json");
  file.write(to_json(config_, config_name(options_.dtype)));
  file.finish();
}

}  // namespace tessera
