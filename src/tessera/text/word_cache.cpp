#include "tessera/text/internal/word_cache.h"

#include <algorithm>
#include <cstring>

namespace tessera::text::detail {
namespace {

constexpr size_t kPlaces = size_t{1} << 18U;
constexpr size_t kMostWords = kPlaces / 2;

uint64_t hash_of(std::string_view word) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15U;
  uint64_t hash = word.size() * kFactor;
  while (!word.empty()) {
    uint64_t eight = 0;
    const size_t count = std::min(word.size(), sizeof(eight));
    std::memcpy(&eight, word.data(), count);
    hash = (hash ^ eight) * kFactor;
    hash ^= hash >> 29U;
    word.remove_prefix(count);
  }
  return hash;
}

}  // namespace

WordCache::WordCache() : entries_(kPlaces) {}

size_t WordCache::place(std::string_view word, uint64_t hash) const {
  size_t at = hash & (kPlaces - 1);
  for (; entries_[at].bytes > 0; at = (at + 1) & (kPlaces - 1)) {
    const Entry& entry = entries_[at];
    if (entry.hash == hash && entry.bytes == word.size() &&
        std::memcmp(texts_.data() + entry.text, word.data(), word.size()) == 0) {
      break;
    }
  }
  return at;
}

std::span<const int64_t> WordCache::find(std::string_view word) const {
  const Entry& entry = entries_[place(word, hash_of(word))];
  if (entry.bytes == 0) return {};
  return {ids_.data() + entry.ids, entry.count};
}

void WordCache::add(std::string_view word, std::span<const int64_t> ids) {
  if (count_ == kMostWords) clear();
  const uint64_t hash = hash_of(word);
  entries_[place(word, hash)] = {.hash = hash,
                                 .text = static_cast<uint32_t>(texts_.size()),
                                 .ids = static_cast<uint32_t>(ids_.size()),
                                 .count = static_cast<uint16_t>(ids.size()),
                                 .bytes = static_cast<uint8_t>(word.size())};
  texts_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++count_;
}

void WordCache::clear() {
  std::ranges::fill(entries_, Entry{});
  texts_.clear();
  ids_.clear();
  count_ = 0;
}

}  // namespace tessera::text::detail
