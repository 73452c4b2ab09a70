#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/base/random.h"
#include "tessera/tensor/parameter.h"

/// Parameters from and to Hugging Face folders, whatever the model.
namespace tessera TSR_API {

class WeightFiles;

/// DataError where a parameter is not in the files, has another shape or no floating-point dtype
/// there, or where they hold something else that `passed_over` does not know either.
void check_weights(const WeightFiles& files, const Parameters& parameters,
                   const std::function<bool(std::string_view)>& passed_over);

/// Gives a parameter, of which a part may be here, its values in place: it stays the same tensor
/// object. Its gradient is dropped.
void initialize(const Parameter& parameter, const RandomKey& key, const Distribution& distribution);
/// The same from checked files, converted to the parameter's dtype. Only the part's bytes are read.
void load(const Parameter& parameter, const WeightFiles& files);
/// The tensor's new memory, shape, dtype and device; it stays the same object.
void replace_data(const at::Tensor& tensor, const at::Tensor& values);

/// Writes the whole parameters into a folder, which is made if it is not there. `source` gives one
/// whole parameter after the other, in their order.
void write_tensors(const Parameters& parameters, const std::string& folder, int64_t shard_bytes,
                   const ParameterSource& source = own_values);

/// The dtype's name in config.json, e.g. "bfloat16".
std::string config_name(at::ScalarType dtype);

}  // namespace tessera
