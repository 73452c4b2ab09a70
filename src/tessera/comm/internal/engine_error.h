#pragma once

#include <exception>
#include <string>

namespace tessera::comm::detail {

/// What LibTorch or an engine said, without the stack that it appends.
std::string engine_words(const std::exception& error);

}  // namespace tessera::comm::detail
