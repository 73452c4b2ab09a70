#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tessera/base/export.h"
#include "tessera/text/tokenize_files.h"

namespace tessera TSR_API {

/// Callbacks while a text is encoded; an empty one is not called.
struct TokenCacheCallbacks {
  std::function<void()> wait = {};  // Another process is encoding; this one waits for it.
  std::function<void(const TokenizeProgress&)> show = {};  // As in tokenize_files().
};

/// How texts become token files that are made once and found again. The name of a token file has a
/// number of all that its tokens depend on: the tokenizer's files, and path, size and time of
/// change of each text. So a changed text gets a new token file, and an old one is never read.
struct TokenCache {
  std::string folder;      // Of the token files; may be removed at any time.
  std::string tokenizer;   // The folder of tokenizer.json.
  int64_t vocab_size = 0;  // Of the model.

  /// The token file of a text file, or of a folder of them; it may not exist yet. DataError if the
  /// text or the tokenizer cannot be read.
  std::string path_of(const std::string& text) const;

  /// Encodes the text as `tessera tokenize` does, unless its token file exists; then it returns
  /// nothing. Continues where an interrupted call stopped. DataError for a text that is not UTF-8
  /// or contains zero bytes, and for a tokenizer larger than the vocabulary; ConfigError if the
  /// tokenizer's folder does not name the token that ends a text.
  std::optional<TokenizeProgress> make(const std::string& text, int64_t threads,
                                       const TokenCacheCallbacks& callbacks = {}) const;
  /// The token that ends each document; the same errors.
  int64_t document_end() const;
};

}  // namespace tessera
