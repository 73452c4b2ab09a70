#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/base/json_field.h"
#include "tessera/text/internal/added_tokens.h"
#include "tessera/text/internal/bpe.h"
#include "tessera/text/internal/decoder.h"
#include "tessera/text/internal/normalizer.h"
#include "tessera/text/internal/post_processor.h"
#include "tessera/text/internal/pre_tokenizer.h"

namespace tessera::text::detail {

/// Everything that a tokenizer.json says.
struct TokenizerParts {
  TokenizerParts(const JsonField& file, std::string origin);
  TokenizerParts(const TokenizerParts&) = delete;
  TokenizerParts& operator=(const TokenizerParts&) = delete;

  /// The token of an id; null for none.
  const std::string* token_of(int64_t id) const;
  int64_t largest_id() const;
  /// Whether, and how, a text may be divided.
  enum class Division { kNone, kBetweenPieces, kBetweenSymbols };
  Division division() const;

  std::string origin;
  uint64_t fingerprint = 0;  // Of the file's content.
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  PostProcessor post_processor;
  Decoder decoder;
  std::vector<AddedToken> added;  // Never changes: the finders point into it.
  std::unordered_map<int64_t, const AddedToken*> added_by_id;
  std::unordered_map<std::string_view, const AddedToken*> added_by_content;
  std::unordered_set<std::string_view> special;
  AddedTokenFinder raw_tokens;         // Those looked for in the text as it is;
  AddedTokenFinder normalized_tokens;  // and in the normalized one.

 private:
  void read_added(const JsonField& file);
  int64_t expected_id(const std::string& content) const;
  void check_ids(const std::vector<int64_t>& ids) const;

  int64_t largest_added_ = -1;
  size_t longest_added_ = 0;
};

}  // namespace tessera::text::detail
