#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::comm::detail {

/// A value of a store of LibTorch.
using StoreBytes = std::vector<uint8_t>;

inline std::string text_of(const StoreBytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

inline StoreBytes bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace tessera::comm::detail
