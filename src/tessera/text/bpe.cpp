#include "tessera/text/internal/bpe.h"

#include <algorithm>
#include <array>
#include <limits>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"
#include "tessera/text/internal/utf8.h"

namespace tessera::text::detail {
namespace {

constexpr int32_t kGone = -2;
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr int64_t kLargestId = std::numeric_limits<int32_t>::max();
constexpr size_t kFewCharacters = 0x3000;

// Bytes that are visible as characters of Latin-1 stand for themselves, the others in order for
// the characters from U+0100 on.
struct ByteCharacters {
  std::array<std::string, 256> texts;
  std::array<int, 0x144> bytes{};

  ByteCharacters() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool visible =
          (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      const char32_t character = visible ? static_cast<char32_t>(byte) : next++;
      append_character(texts.at(static_cast<size_t>(byte)), character);
      bytes.at(character) = byte;
    }
  }
};

const ByteCharacters& byte_characters() {
  static const ByteCharacters kCharacters;
  return kCharacters;
}

std::string byte_token(size_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return concat("<0x", kDigits[byte / 16], kDigits[byte % 16], ">");
}

// For a heap whose first element is the next merge.
bool comes_later(const BpeMemory::Merge& a, const BpeMemory::Merge& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

std::string in_visible_bytes(std::string_view word) {
  std::string text;
  text.reserve(2 * word.size());
  for (const char c : word) text += visible_byte(static_cast<unsigned char>(c));
  return text;
}

}  // namespace

const std::string& visible_byte(unsigned char byte) {
  return byte_characters().texts.at(byte);
}

std::optional<unsigned char> byte_of(char32_t character) {
  const auto& bytes = byte_characters().bytes;
  if (character >= bytes.size() || bytes.at(character) < 0) return std::nullopt;
  return static_cast<unsigned char>(bytes.at(character));
}

// ---- The file

Bpe::Bpe(const JsonField& field, bool byte_level) : byte_level_(byte_level) {
  if (field.has_value("type"))
    field.at("type").check(field.at("type").raw_text() == "BPE", "\"BPE\"");
  read_vocabulary(field.at("vocab"));
  read_options(field);
  read_merges(field.at("merges"));
}

void Bpe::read_options(const JsonField& field) {
  const auto flag = [&](std::string_view key) {
    return field.has_value(key) && field.at(key).boolean();
  };
  byte_fallback_ = flag("byte_fallback");
  fuse_unk_ = flag("fuse_unk");
  ignore_merges_ = flag("ignore_merges");
  if (field.has_value("dropout")) {
    field.at("dropout").check(field.at("dropout").number() == 0,
                              "no dropout: encoding must not be random");
  }
  for (const char* const affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (field.has_value(affix))
      field.at(affix).check(field.at(affix).raw_text().empty(), "null or \"\"");
  }
  if (!field.has_value("unk_token")) return;
  unknown_ = lookup(field.at("unk_token").raw_text());
  field.at("unk_token").check(unknown_.has_value(), "a token of the vocabulary");
}

void Bpe::read_vocabulary(const JsonField& field) {
  few_characters_.assign(kFewCharacters, kNone);
  vocabulary_.reserve(field.value().size());
  tokens_.reserve(field.value().size());
  field.members([&](const std::string& token, const JsonField& one) {
    const auto id = static_cast<uint32_t>(one.integer(0, kLargestId));
    vocabulary_.emplace(token, id);
    const auto [at, is_new] = tokens_.emplace(id, token);
    one.check(is_new, concat("an id of its own: '", visible(at->second), "' has it"));
    largest_ = std::max<int64_t>(largest_, id);
    longest_token_ = std::max(longest_token_, token.size());
    if (token.empty() || token.size() != width_of(token[0])) return;
    const char32_t character = first_character(token);
    if (character < kFewCharacters) few_characters_[character] = id;
  });
  for (size_t byte = 0; byte < 256; ++byte) byte_tokens_.push_back(lookup(byte_token(byte)));
}

uint32_t Bpe::known(const std::string& token, const JsonField& field) const {
  const auto id = lookup(token);
  if (!id) field.refuse(concat("tokens of the vocabulary; '", visible(token), "' is none"));
  return *id;
}

void Bpe::read_merges(const JsonField& field) {
  merges_ = PairTable(field.value().size());
  joined_ = PairTable(field.value().size());
  uint32_t rank = 0;
  (void)field.list([&](const JsonField& one) {
    if (one.value().is_string()) {
      const std::string text = one.raw_text();
      const size_t space = text.find(' ');
      one.check(space != std::string::npos && text.find(' ', space + 1) == std::string::npos,
                "two tokens with a space between them");
      add_merge(text.substr(0, space), text.substr(space + 1), rank++, one);
    } else {
      const auto parts = one.list([](const JsonField& part) { return part.raw_text(); });
      one.check(parts.size() == 2, "two tokens");
      add_merge(parts[0], parts[1], rank++, one);
    }
    return 0;
  });
}

// A merge is longer than its parts, so that no sequence of merges comes back to where it began.
void Bpe::add_merge(const std::string& left, const std::string& right, uint32_t rank,
                    const JsonField& field) {
  field.check(!left.empty() && !right.empty(), "two tokens that are not empty");
  const uint32_t left_id = known(left, field);
  const uint32_t right_id = known(right, field);
  merges_.set(left_id, right_id, rank, known(left + right, field));
  joined_.set(last_character(left), first_character(right), 0, 0);
  const auto is_byte = [this](uint32_t id) {
    return std::ranges::find(byte_tokens_, id) != byte_tokens_.end();
  };
  if (byte_fallback_) bytes_merge_ = bytes_merge_ || is_byte(left_id) || is_byte(right_id);
}

std::optional<uint32_t> Bpe::lookup(std::string_view token) const {
  const auto at = vocabulary_.find(token);
  return at == vocabulary_.end() ? std::nullopt : std::optional(at->second);
}

std::optional<int64_t> Bpe::find(std::string_view token) const {
  return lookup(token);
}

// ---- Encoding

Bpe::Start Bpe::start_of(std::string_view character) const {
  if (lookup(character)) return Start::kToken;
  if (!byte_fallback_) return Start::kUnknown;
  const bool all = std::ranges::all_of(character, [this](char c) {
    return byte_tokens_[static_cast<unsigned char>(c)].has_value();
  });
  return all ? Start::kBytes : Start::kUnknown;
}

std::optional<uint32_t> Bpe::character_id(std::string_view character) const {
  const char32_t number = first_character(character);
  if (number >= kFewCharacters) return lookup(character);
  const uint32_t id = few_characters_[number];
  return id == kNone ? std::nullopt : std::optional(id);
}

Bpe::Start Bpe::start_of(char32_t character) const {
  if (character < kFewCharacters && few_characters_[character] != kNone) return Start::kToken;
  std::string text;
  append_character(text, character);
  return start_of(text);
}

bool Bpe::can_cut(char32_t before, char32_t after) const {
  if (bytes_merge_ || joined_.find(before, after) != nullptr) return false;
  const Start left = start_of(before);
  const Start right = start_of(after);
  return left != Start::kUnknown && right != Start::kUnknown;
}

void Bpe::encode(std::string_view word, BpeMemory& memory, std::vector<int64_t>& ids) const {
  if (word.size() > WordCache::kLongestWord) return encode_long(word, memory, ids);
  if (const auto seen = memory.words.find(word); seen.data() != nullptr) {
    ids.insert(ids.end(), seen.begin(), seen.end());
    return;
  }
  const size_t before = ids.size();
  const std::string bytes = byte_level_ ? in_visible_bytes(word) : "";
  encode_whole(byte_level_ ? bytes : word, memory, ids);
  memory.words.add(word, std::span(ids).subspan(before));
}

void Bpe::encode_whole(std::string_view text, BpeMemory& memory, std::vector<int64_t>& ids) const {
  if (ignore_merges_) {
    if (const auto id = lookup(text)) return ids.push_back(*id);
  }
  merge(text, memory, ids);
}

// Where no merge can reach across, a long word falls into parts, most of which were seen before.
void Bpe::encode_long(std::string_view word, BpeMemory& memory, std::vector<int64_t>& ids) const {
  const std::string bytes = byte_level_ ? in_visible_bytes(word) : "";
  const std::string_view text = byte_level_ ? bytes : word;
  if (ignore_merges_ && text.size() <= longest_token_ && lookup(text)) {
    return ids.push_back(*lookup(text));
  }
  size_t begin = 0;
  char32_t before = first_character(text);
  for (size_t at = width_of(text[0]); at < text.size(); at += width_of(text[at])) {
    const char32_t after = first_character(text.substr(at));
    if (can_cut(before, after)) {
      encode_part(text.substr(begin, at - begin), memory, ids);
      begin = at;
    }
    before = after;
  }
  encode_part(text.substr(begin), memory, ids);
}

// Words are kept as bytes, and as what they are as a whole: then a part has no place there.
void Bpe::encode_part(std::string_view part, BpeMemory& memory, std::vector<int64_t>& ids) const {
  const bool is_word = !byte_level_ && !ignore_merges_ && part.size() <= WordCache::kLongestWord;
  is_word ? encode(part, memory, ids) : merge(part, memory, ids);
}

void Bpe::merge(std::string_view text, BpeMemory& memory, std::vector<int64_t>& ids) const {
  start_symbols(text, memory);
  merge_symbols(memory);
  for (const BpeMemory::Symbol& symbol : memory.symbols) {
    if (symbol.after != kGone) ids.push_back(symbol.id);
  }
}

void Bpe::start_symbols(std::string_view text, BpeMemory& memory) const {
  std::vector<BpeMemory::Symbol>& symbols = memory.symbols;
  symbols.clear();
  const auto add = [&](uint32_t id) {
    const auto at = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, at - 1, at + 1});
  };
  bool unknown = false;  // Whether one is still to be added: runs of them may become one.
  for (size_t at = 0; at < text.size();) {
    const std::string_view character = text.substr(at, width_of(text[at]));
    at += character.size();
    const auto id = character_id(character);
    if (id) {
      if (unknown) add(*unknown_);
      unknown = false;
      add(*id);
    } else if (start_of(character) == Start::kBytes) {
      // As in the peer, an unknown one before it comes behind it.
      for (const char c : character) add(*byte_tokens_[static_cast<unsigned char>(c)]);
    } else if (unknown_) {
      if (unknown && !fuse_unk_) add(*unknown_);
      unknown = true;
    }
  }
  if (unknown) add(*unknown_);
  if (!symbols.empty()) symbols.back().after = -1;
}

void Bpe::push_merge(BpeMemory& memory, int32_t at) const {
  const BpeMemory::Symbol& left = memory.symbols[static_cast<size_t>(at)];
  if (left.after < 0) return;
  const PairTable::Entry* const merge =
      merges_.find(left.id, memory.symbols[static_cast<size_t>(left.after)].id);
  if (merge == nullptr) return;
  memory.merges.push_back({merge->rank, static_cast<uint32_t>(at), merge->id});
  std::ranges::push_heap(memory.merges, comes_later);
}

// The merge of the lowest rank first, of equal ones the leftmost.
void Bpe::merge_symbols(BpeMemory& memory) const {
  std::vector<BpeMemory::Symbol>& symbols = memory.symbols;
  memory.merges.clear();
  for (int32_t at = 0; at < std::ssize(symbols); ++at) push_merge(memory, at);
  while (!memory.merges.empty()) {
    std::ranges::pop_heap(memory.merges, comes_later);
    const BpeMemory::Merge merge = memory.merges.back();
    memory.merges.pop_back();
    BpeMemory::Symbol& left = symbols[merge.at];
    if (left.after < 0) continue;
    BpeMemory::Symbol& right = symbols[static_cast<size_t>(left.after)];
    const PairTable::Entry* const now = merges_.find(left.id, right.id);
    if (now == nullptr || now->id != merge.id) continue;  // One of them has changed since.
    left.id = merge.id;
    left.after = right.after;
    right.after = kGone;
    if (left.after >= 0) {
      symbols[static_cast<size_t>(left.after)].before = static_cast<int32_t>(merge.at);
      push_merge(memory, static_cast<int32_t>(merge.at));
    }
    if (left.before >= 0) push_merge(memory, left.before);
  }
}

}  // namespace tessera::text::detail
