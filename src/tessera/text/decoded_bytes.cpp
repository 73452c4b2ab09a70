#include "tessera/text/decoded_bytes.h"

#include <algorithm>
#include <vector>

#include "tessera/text/internal/utf8.h"

namespace tessera {
namespace {

constexpr int64_t kBlock = 1 << 16;   // Tokens that are read at a time.
constexpr size_t kSegment = 1 << 12;  // Tokens that are decoded at a time.
constexpr size_t kLongest = 16 * kSegment;

/// Counts the bytes of tokens that come one after the other. A long text is divided where a
/// character ends. Each part is decoded behind the last token of the one before, so that it is not
/// taken for the beginning of a text, which has its own rules for spaces.
class ByteCounter {
 public:
  explicit ByteCounter(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The token counts only as what comes before the others.
  void begin_behind(int64_t token) {
    ids_ = {token};
    before_ = size_of(ids_);
  }

  void add(int64_t token) {
    ids_.push_back(token);
    if (ids_.size() < kSegment) return;
    const bool may_wait = ids_.size() < kLongest;
    if (may_wait && is_cut(tokenizer_.decode({{token}}))) return;
    const std::string text = tokenizer_.decode(ids_);
    if (may_wait && is_cut(text)) return;
    bytes_ += static_cast<int64_t>(text.size()) - before_;
    begin_behind(token);
  }

  void end_text() {
    bytes_ += size_of(ids_) - before_;
    ids_.clear();
    before_ = 0;
  }

  int64_t bytes() const { return bytes_; }

 private:
  // Ends inside a character. A byte that ends one is no character by itself, so nothing can be
  // decoded behind it alone.
  static bool is_cut(std::string_view text) { return text.ends_with(text::detail::kReplacement); }

  int64_t size_of(const std::vector<int64_t>& ids) const {
    return static_cast<int64_t>(tokenizer_.decode(ids).size());
  }

  const Tokenizer& tokenizer_;
  std::vector<int64_t> ids_ = {};
  int64_t before_ = 0;  // Bytes of the first token, if an earlier part has counted it.
  int64_t bytes_ = 0;
};

}  // namespace

int64_t decoded_bytes(const Tokenizer& tokenizer, const TokenSource& tokens, int64_t end) {
  ByteCounter counter(tokenizer);
  std::vector<int64_t> block;
  for (int64_t begin = 0; begin < tokens.size(); begin += kBlock) {
    block.resize(static_cast<size_t>(std::min(kBlock, tokens.size() - begin)));
    tokens.read(begin, block);
    for (size_t i = 0; i < block.size(); ++i) {
      begin == 0 && i == 0 ? counter.begin_behind(block[0]) : counter.add(block[i]);
      if (block[i] == end) counter.end_text();
    }
  }
  counter.end_text();
  return counter.bytes();
}

}  // namespace tessera
