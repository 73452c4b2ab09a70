#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/base/random.h"
#include "tessera/tensor/parameter.h"

/// Reads and writes the parameters of any model from and to Hugging Face folders.
namespace tessera TSR_API {

class WeightFiles;

/// DataError if a parameter is missing in the files, has another shape or no floating-point dtype
/// there, or if they hold another tensor for which `passed_over` is false.
void check_weights(const WeightFiles& files, const Parameters& parameters,
                   const std::function<bool(std::string_view)>& passed_over);

/// Sets the values of a parameter, or of this rank's part, in place: it stays the same tensor
/// object. Drops its gradient.
void initialize(const Parameter& parameter, const RandomKey& key, const Distribution& distribution);
/// The same from checked files, converted to the parameter's dtype. Only reads the part's bytes.
void load(const Parameter& parameter, const WeightFiles& files);
/// Replaces the tensor's memory, shape, dtype and device; it stays the same object.
void replace_data(const at::Tensor& tensor, const at::Tensor& values);

/// Writes the full parameters into a folder, which is created if it does not exist. `source`
/// returns one full parameter after the other, in this order.
void write_tensors(const Parameters& parameters, const std::string& folder, int64_t shard_bytes,
                   const ParameterSource& source = own_values);

/// The dtype's name in config.json, e.g. "bfloat16".
std::string config_name(at::ScalarType dtype);

}  // namespace tessera
