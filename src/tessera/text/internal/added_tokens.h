#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/text/internal/regex.h"

namespace tessera::text::detail {

/// A token that is cut from the text before anything else.
struct AddedToken {
  int64_t id = 0;
  std::string content;
  bool single_word = false;  // Only where no word continues on either side.
  bool lstrip = false;       // Takes the white space before it along.
  bool rstrip = false;       // That behind it.
  bool normalized = false;   // Looked for in the normalized text.
  bool special = false;      // Left out of decoded text.
};

/// A part of a text: an added token, or what stands between two.
struct Segment {
  Range range;
  const AddedToken* token = nullptr;
};

/// Finds added tokens in a text: the leftmost, and of those that begin at one place the longest.
/// Threads may share it.
class AddedTokenFinder {
 public:
  AddedTokenFinder() : nodes_(1) {}

  /// Of two tokens with the same text the first counts. `token` must outlive this.
  void add(std::string_view text, const AddedToken& token);
  bool is_empty() const { return nodes_.size() == 1; }
  /// Whether one begins at this place.
  bool begins_at(std::string_view text, size_t at) const {
    return longest(text, at).second != nullptr;
  }

  /// All segments of a text that is not empty, in order; those between tokens are not empty. `use`
  /// returns false to stop.
  void each(std::string_view text, Matcher& matcher,
            const std::function<bool(const Segment&)>& use) const;

 private:
  /// A node of the tree of all tokens' bytes.
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;
    const AddedToken* token = nullptr;
  };
  uint32_t step(uint32_t node, unsigned char byte) const;
  std::pair<size_t, const AddedToken*> longest(std::string_view text, size_t at) const;
  size_t next_candidate(std::string_view text, size_t at) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};  // The first bytes of tokens.
};

}  // namespace tessera::text::detail
