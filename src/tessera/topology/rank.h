#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <vector>

namespace tessera {

/// An integer that cannot be mistaken for one of another meaning.
template <class Tag>
struct Id {
  int64_t value = 0;

  friend constexpr auto operator<=>(Id, Id) = default;
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

}  // namespace tessera
