#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "tessera/base/export.h"

namespace tessera TSR_API {

class Group;

/// Bytes by the name of the group that sent them.
using SentBytes = std::map<std::string, int64_t, std::less<>>;

/// What this rank has sent so far in the world of `group`, messages and collectives. A collective
/// counts as a ring or a direct exchange, whatever its engine does: of n ranks, a rank sends n − 1
/// times its tensor in an all-gather, all but its own piece in a reduce-scatter or an all-to-all,
/// and 2(n − 1)/n of it in an all-reduce. Empty in a world of one rank.
SentBytes sent_bytes(const Group& group);

}  // namespace tessera
