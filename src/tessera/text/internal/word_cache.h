#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text::detail {

/// The ids of words seen before. It has a fixed size: when it is full, it starts again empty.
class WordCache {
 public:
  /// Longer words are not kept.
  static constexpr size_t kLongestWord = 64;

  WordCache();

  /// The word's ids; null data if it is not there. They hold until the next call of `add`.
  std::span<const int64_t> find(std::string_view word) const;
  void add(std::string_view word, std::span<const int64_t> ids);

 private:
  struct Entry {
    uint64_t hash = 0;
    uint32_t text = 0;   // Where it begins in texts_.
    uint32_t ids = 0;    // Where they begin in ids_.
    uint16_t count = 0;  // Of the ids.
    uint8_t bytes = 0;   // Of the word; 0 for a free place.
  };
  size_t place(std::string_view word, uint64_t hash) const;
  void clear();

  std::vector<Entry> entries_;
  std::string texts_;
  std::vector<int64_t> ids_;
  size_t count_ = 0;
};

}  // namespace tessera::text::detail
