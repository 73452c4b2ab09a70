#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace tessera::text::detail {

/// A hash table from pairs of numbers to two numbers.
class PairTable {
 public:
  struct Entry {
    uint64_t key = kFree;
    uint32_t rank = 0;
    uint32_t id = 0;
  };
  /// Room for this many pairs.
  explicit PairTable(size_t count = 0) : entries_(std::bit_ceil(2 * count + 2)) {}

  /// Of two values for a pair the last one counts.
  void set(uint32_t left, uint32_t right, uint32_t rank, uint32_t id) {
    const uint64_t key = key_of(left, right);
    Entry& entry = entries_[place(key)];
    entry = {key, rank, id};
  }
  /// Null if it is not there.
  const Entry* find(uint32_t left, uint32_t right) const {
    const Entry& entry = entries_[place(key_of(left, right))];
    return entry.key == kFree ? nullptr : &entry;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // No pair: ids and characters are smaller.
  static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32U | right; }

  // Where the key is, or would be.
  size_t place(uint64_t key) const {
    const size_t mask = entries_.size() - 1;
    uint64_t hash = key * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 32U;
    size_t at = hash & mask;
    while (entries_[at].key != kFree && entries_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  std::vector<Entry> entries_;
};

}  // namespace tessera::text::detail
