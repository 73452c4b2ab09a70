#pragma once

#include <cstdint>

#include "tessera/plan/context_layout.h"

/// Checks of sequence lengths that the context layouts share.
namespace tessera::plan::detail {

inline constexpr int64_t kMostPositions = int64_t{1} << 26;  // Bounds what a layout may hold.

/// The sum; ConfigError for a document of less than one position, none at all, or too many.
int64_t total_length(const DocumentLengths& documents);
/// ConfigError unless the length is a multiple of `ranks`, with the nearest that are.
void check_one_chunk(int64_t length, int64_t ranks);
/// The same for 2·ranks; one rank takes any length.
void check_two_chunks(int64_t length, int64_t ranks);
void check_block(int64_t block);

}  // namespace tessera::plan::detail
