#include <span>
#include <utility>

#include "tessera/text/internal/tokenizer_parts.h"
#include "tessera/text/internal/utf8.h"
#include "tessera/text/tokenizer.h"

namespace tessera {

using namespace text::detail;

DecodeStream::DecodeStream(Tokenizer tokenizer, const DecodeOptions& options)
    : tokenizer_(std::move(tokenizer)), options_(options) {}

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
  while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  return emit(std::move(text));
}

std::string DecodeStream::finish() {
  std::string rest = emit(tokenizer_.decode(ids_, options_));
  ids_.clear();
  shown_ = 0;
  return rest;
}

std::string DecodeStream::emit(std::string text) {
  if (text.size() <= shown_) return "";
  return text.substr(std::exchange(shown_, text.size()));
}

}  // namespace tessera
