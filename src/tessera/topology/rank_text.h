#pragma once

#include <string>

#include "tessera/base/export.h"
#include "tessera/topology/rank.h"

namespace tessera TSR_API {

/// A group in few characters: "0-7", "0,8,16,24", "0-7,16-23", "0,8,16,…,248". Lists of more than
/// four items are shortened unless the whole fits into `room` characters.
std::string short_list(const RankGroup& ranks, size_t room = 0);

}  // namespace tessera
