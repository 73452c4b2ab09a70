#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// CRC-32C of `bytes`, continuing from the checksum of the bytes before them.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace tessera
