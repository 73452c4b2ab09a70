#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

/// An integer with a meaning of its own: construction is explicit, and it compares only with plain
/// integers and its own type.
template <class Tag>
struct Id {
  int64_t value = 0;  // As a plain integer, from 0 for ranks.

  constexpr Id() = default;
  constexpr explicit Id(int64_t given) : value(given) {}

  friend constexpr auto operator<=>(Id, Id) = default;
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id a, int64_t b) { return a.value <=> b; }
  friend constexpr bool operator==(Id a, int64_t b) { return a.value == b; }
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value; }
};

/// A process's rank in the world.
using GlobalRank = Id<struct GlobalRankTag>;
/// A process's rank in one group.
using GroupRank = Id<struct GroupRankTag>;

/// The members of one group, in group-rank order.
using RankGroup = std::vector<GlobalRank>;

/// Plain integers as global ranks, for literals and for interfaces with plain integers.
RankGroup to_ranks(const std::vector<int64_t>& values);
/// Global ranks as plain integers, for arithmetic.
std::vector<int64_t> to_integers(const RankGroup& ranks);

}  // namespace tessera
