#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/base/json_field.h"
#include "tessera/text/internal/pair_table.h"
#include "tessera/text/internal/word_cache.h"

namespace tessera::text::detail {

/// The memory of merging and of words seen before, which threads cannot share.
struct BpeMemory {
  struct Symbol {
    uint32_t id;
    int32_t before;
    int32_t after;  // -1 at the end; kGone once it is part of another.
  };
  struct Merge {
    uint32_t rank;
    uint32_t at;
    uint32_t id;
  };
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;  // A heap, the next one first.
  WordCache words;
};

/// Byte-pair encoding: a file's `model`. Threads may share it.
class Bpe {
 public:
  /// DataError for other models, and for vocabularies and merges that contradict each other.
  /// `byte_level`: words are bytes, and tokens stand for bytes by one visible character each.
  Bpe(const JsonField& field, bool byte_level);

  /// Appends the ids of a word.
  void encode(std::string_view word, BpeMemory& memory, std::vector<int64_t>& ids) const;

  size_t size() const { return vocabulary_.size(); }
  int64_t largest_id() const { return largest_; }
  std::optional<int64_t> find(std::string_view token) const;
  const std::unordered_map<uint32_t, std::string>& tokens() const { return tokens_; }

  /// Whether no merge can ever join what ends with one character and what begins with another, and
  /// each has a token: then a text can be cut between them.
  bool can_cut(char32_t before, char32_t after) const;
  /// Whether a word as a whole is looked up before any merge.
  bool ignores_merges() const { return ignore_merges_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  /// How a character becomes tokens.
  enum class Start { kToken, kBytes, kUnknown };

  void read_options(const JsonField& field);
  void read_vocabulary(const JsonField& field);
  void read_merges(const JsonField& field);
  void add_merge(const std::string& left, const std::string& right, uint32_t rank,
                 const JsonField& field);
  uint32_t known(const std::string& token, const JsonField& field) const;
  std::optional<uint32_t> lookup(std::string_view token) const;

  Start start_of(std::string_view character) const;
  Start start_of(char32_t character) const;
  std::optional<uint32_t> character_id(std::string_view character) const;
  void encode_whole(std::string_view text, BpeMemory& memory, std::vector<int64_t>& ids) const;
  void encode_long(std::string_view word, BpeMemory& memory, std::vector<int64_t>& ids) const;
  void encode_part(std::string_view part, BpeMemory& memory, std::vector<int64_t>& ids) const;
  void merge(std::string_view text, BpeMemory& memory, std::vector<int64_t>& ids) const;
  void start_symbols(std::string_view text, BpeMemory& memory) const;
  void merge_symbols(BpeMemory& memory) const;
  void push_merge(BpeMemory& memory, int32_t at) const;

  bool byte_level_;
  bool byte_fallback_ = false;
  bool fuse_unk_ = false;
  bool ignore_merges_ = false;
  bool bytes_merge_ = false;  // Whether a merge names the token of a byte.
  std::optional<uint32_t> unknown_ = std::nullopt;
  int64_t largest_ = -1;
  size_t longest_token_ = 0;
  std::unordered_map<std::string, uint32_t, Hash, std::equal_to<>> vocabulary_;
  std::unordered_map<uint32_t, std::string> tokens_;
  std::vector<std::optional<uint32_t>> byte_tokens_;  // "<0x00>" to "<0xFF>".
  std::vector<uint32_t> few_characters_;  // Ids of characters below its size; kNone for no token.
  PairTable merges_;
  PairTable joined_;  // Last and first character of all merges' parts.
};

/// Bytes as ByteLevel shows them: one visible character each.
const std::string& visible_byte(unsigned char byte);
/// The byte that a character stands for, if any.
std::optional<unsigned char> byte_of(char32_t character);

}  // namespace tessera::text::detail
