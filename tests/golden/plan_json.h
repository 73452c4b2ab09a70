#pragma once

#include <string>
#include <string_view>

#include "tessera/plan/plan.h"
#include "tests/golden/golden.h"

namespace tessera::golden {

Json to_json(const RankGroup& group);

/// A created group in the form of the tables: name, ranks as they are listed, sorted_ranks where
/// that is another order, and backend where it is not the default.
Json to_json(const GroupSpec& spec, const RankGroup& ranks);

/// What is set of them, and the stream.
Json to_json(const NcclOptions& options);

/// FNV-1a of 64 bits, in hexadecimal digits.
std::string fnv1a64(std::string_view text);

}  // namespace tessera::golden
