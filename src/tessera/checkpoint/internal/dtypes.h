#pragma once

#include <c10/core/ScalarType.h>

#include "tessera/format/dtype.h"

namespace tessera::checkpoint::detail {

/// ConfigError for dtypes that safetensors does not have.
DType stored_dtype(at::ScalarType dtype);
/// DataError for dtypes that LibTorch does not have.
at::ScalarType torch_dtype(DType dtype);

}  // namespace tessera::checkpoint::detail
