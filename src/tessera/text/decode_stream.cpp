#include <span>
#include <utility>

#include "tessera/text/internal/tokenizer_parts.h"
#include "tessera/text/internal/utf8.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

using namespace text::detail;

namespace {

// So that the time for a token does not grow with the text before it.
constexpr size_t kMostIds = 24;
constexpr std::ptrdiff_t kLeastIds = 8;

// Without a character at the end that later tokens may complete.
std::string whole_characters(std::string text) {
  while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  return text;
}

}  // namespace

DecodeStream::DecodeStream(Tokenizer tokenizer, const DecodeOptions& options,
                           std::span<const int64_t> before)
    : tokenizer_(std::move(tokenizer)),
      options_(options),
      ids_(before.begin(), before.end()),
      shown_(whole_characters(tokenizer_.decode(ids_, options_)).size()) {}

std::string DecodeStream::push(int64_t id) {
  ids_.push_back(id);
  const TokenizerParts& parts = *tokenizer_.parts_;
  if (!parts.decoder.is_steady()) return "";
  const std::string* const token = parts.token_of(id);
  const bool is_left_out =
      token != nullptr && !options_.keep_special && parts.special.contains(*token);
  if (token != nullptr && parts.decoder.is_byte(*token)) return "";  // The run may go on,
  if (is_left_out) return "";                                        // even behind this one.
  std::string text = tokenizer_.decode(ids_, options_);
  const bool is_whole = !text.ends_with(kReplacement);
  std::string more = emit(whole_characters(std::move(text)));
  if (is_whole && ids_.size() >= kMostIds) forget_shown();
  return more;
}

// Later tokens add the same text behind the last ids as behind all of them, unless these have no
// text: then what a decoder does at the begin of a text would be done again.
void DecodeStream::forget_shown() {
  const std::span last = std::span(ids_).last(kLeastIds);
  const size_t size = tokenizer_.decode(last, options_).size();
  if (size == 0) return;
  shown_ = size;
  ids_.erase(ids_.begin(), ids_.end() - kLeastIds);
}

std::string DecodeStream::finish() {
  std::string rest = emit(tokenizer_.decode(ids_, options_));
  ids_.clear();
  shown_ = 0;
  return rest;
}

std::string DecodeStream::emit(const std::string& text) {
  if (text.size() <= shown_) return "";
  return text.substr(std::exchange(shown_, text.size()));
}

}  // namespace tessera
