#pragma once

#include <c10/core/ScalarType.h>

#include <string>

/// Every dtype of PyTorch under its Python names.
namespace tessera::golden {

/// "float32", its other name "float", or "torch.float32"; UnknownName for anything else.
c10::ScalarType dtype_named(const std::string& name);

/// "float32".
std::string name_of(c10::ScalarType dtype);

}  // namespace tessera::golden
