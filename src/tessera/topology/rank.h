#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// An integer that cannot be mistaken for one of another meaning: it is made explicitly, and
/// compares with plain integers and with its own kind alone.
template <class Tag>
struct Id {
  int64_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(int64_t given) : value(given) {}

  friend constexpr auto operator<=>(Id, Id) = default;
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id a, int64_t b) { return a.value <=> b; }
  friend constexpr bool operator==(Id a, int64_t b) { return a.value == b; }
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value; }
};

/// A process's number in the whole world.
using GlobalRank = Id<struct GlobalRankTag>;
/// A process's number within one group.
using GroupRank = Id<struct GroupRankTag>;

/// The members of one group, in group-rank order.
using RankGroup = std::vector<GlobalRank>;

/// Plain integers as global ranks, for literals and for borders to plain-integer interfaces.
RankGroup to_ranks(const std::vector<int64_t>& values);
/// Global ranks as plain integers, for code that counts with them.
std::vector<int64_t> to_integers(const RankGroup& ranks);

}  // namespace tessera
