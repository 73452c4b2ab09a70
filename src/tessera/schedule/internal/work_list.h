#pragma once

#include <optional>
#include <vector>

namespace tessera::schedule::detail {

/// Ranks that may be able to advance, each listed once; initially all.
class WorkList {
 public:
  explicit WorkList(size_t num_ranks) : listed_(num_ranks, true) {
    for (size_t rank = num_ranks; rank > 0; --rank) list_.push_back(rank - 1);
  }

  void wake(size_t rank) {
    if (listed_[rank]) return;
    listed_[rank] = true;
    list_.push_back(rank);
  }
  std::optional<size_t> next() {
    if (list_.empty()) return std::nullopt;
    const size_t rank = list_.back();
    list_.pop_back();
    listed_[rank] = false;
    return rank;
  }

 private:
  std::vector<size_t> list_;
  std::vector<bool> listed_;
};

}  // namespace tessera::schedule::detail
