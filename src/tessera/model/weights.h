#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/export.h"
#include "tessera/layer/parameter.h"

/// Parameters from and to Hugging Face folders, whatever the model.
namespace tessera TSR_API {

class WeightFiles;

/// DataError where a parameter is not in the files, has another shape or no floating-point dtype
/// there, or where they hold something else that `passed_over` does not know either.
void check_weights(const WeightFiles& files, const NamedParameters& parameters,
                   const std::function<bool(std::string_view)>& passed_over);

/// A copy of what the checked files hold under the name, with the dtype and on the device of
/// `like`.
at::Tensor read_tensor(const WeightFiles& files, const std::string& name, const at::Tensor& like);

/// Writes the parameters into a folder, which is made where it is not there. `source` is asked for
/// one after the other, in their order.
void write_tensors(const NamedParameters& parameters, const std::string& folder,
                   int64_t shard_bytes, const ParameterSource& source = own_values);

/// The dtype's name in config.json, e.g. "bfloat16".
std::string config_name(at::ScalarType dtype);

}  // namespace tessera
