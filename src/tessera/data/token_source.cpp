#include "tessera/data/token_source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::array<std::pair<TokenKind, std::string_view>, 4> kNames{
    {{TokenKind::kAuto, "auto"},
     {TokenKind::kBytes, "bytes"},
     {TokenKind::kU16, "u16"},
     {TokenKind::kU32, "u32"}}};

constexpr int64_t kChunk = 1 << 16;  // Tokens checked at a time: they fit the caches.

DType dtype_of(TokenKind kind, std::string_view path) {
  switch (kind) {
    case TokenKind::kAuto:
      if (path.ends_with(".u32")) return DType::kU32;
      return path.ends_with(".bin") ? DType::kU16 : DType::kU8;
    case TokenKind::kBytes:
      return DType::kU8;
    case TokenKind::kU16:
      return DType::kU16;
    case TokenKind::kU32:
      return DType::kU32;
  }
  return DType::kU8;
}

// Training on numbers read as text would fail silently.
void check_text(const TokenFile& file) {
  std::vector<int64_t> begin(static_cast<size_t>(std::min(file.size(), kChunk)));
  file.read(0, begin);
  const auto zero = std::ranges::find(begin, 0);
  if (zero == begin.end()) return;
  throw DataError(concat(file.path(), ": byte ", zero - begin.begin(),
                         " is 0, so this is not text; give its kind: u16, u32 or bytes"));
}

TokenFile open_file(const std::string& path, TokenKind kind) {
  TokenFile file(path, dtype_of(kind, path));
  const bool guessed = kind == TokenKind::kAuto && !path.ends_with(".npy");
  if (guessed && file.dtype() == DType::kU8) check_text(file);
  return file;
}

FolderText open_folder(const std::string& path, TokenKind kind) {
  TSR_CHECK(kind == TokenKind::kAuto || kind == TokenKind::kBytes, path,
            " is a folder, which can only hold text files; give the file of ", to_string(kind),
            " tokens itself");
  return read_folder_text(path);
}

// Whether all numbers of this type are in the vocabulary.
bool always_fits(DType dtype, int64_t vocab_size) {
  return dtype == DType::kU8
             ? vocab_size > std::numeric_limits<uint8_t>::max()
             : dtype == DType::kU16 && vocab_size > std::numeric_limits<uint16_t>::max();
}

}  // namespace

std::string_view to_string(TokenKind kind) {
  return std::ranges::find(kNames, kind, &decltype(kNames)::value_type::first)->second;
}

TokenKind parse_token_kind(std::string_view text) {
  const auto found = std::ranges::find(kNames, text, &decltype(kNames)::value_type::second);
  const auto names = token_kind_names();
  TSR_CHECK(found != kNames.end(), "unknown token kind '", text, "'; choose from ",
            join(names, ", "), did_you_mean(text, names));
  return found->first;
}

std::vector<std::string> token_kind_names() {
  std::vector<std::string> names;
  for (const auto& [kind, name] : kNames) names.emplace_back(name);
  return names;
}

bool is_text(const std::string& path, TokenKind kind) {
  if (kind == TokenKind::kBytes || std::filesystem::is_directory(path)) return true;
  return kind == TokenKind::kAuto && !path.ends_with(".npy") && dtype_of(kind, path) == DType::kU8;
}

TokenSource::Tokens TokenSource::open(const std::string& path, TokenKind kind) {
  if (std::filesystem::is_directory(path)) return open_folder(path, kind);
  return open_file(path, kind);
}

TokenSource::TokenSource(const std::string& path, TokenKind kind)
    : path_(path), tokens_(open(path, kind)) {}

int64_t TokenSource::size() const {
  const auto* const file = std::get_if<TokenFile>(&tokens_);
  return file != nullptr ? file->size() : std::ssize(std::get<FolderText>(tokens_).text);
}

void TokenSource::read(int64_t begin, std::span<int64_t> tokens) const {
  if (const auto* const file = std::get_if<TokenFile>(&tokens_)) return file->read(begin, tokens);
  const auto count = static_cast<int64_t>(tokens.size());
  TSR_CHECK(begin >= 0 && begin <= size() - count, "tokens ", begin, " to ", begin + count, " of ",
            path_, " were requested, which has ", size());
  const std::string& text = std::get<FolderText>(tokens_).text;
  std::ranges::transform(std::string_view(text).substr(static_cast<size_t>(begin), tokens.size()),
                         tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
}

std::string TokenSource::place(int64_t position) const {
  const auto* const folder = std::get_if<FolderText>(&tokens_);
  if (folder == nullptr) return concat(path_, ": token ", position);
  const auto after =
      std::ranges::upper_bound(folder->files, position, {}, &FolderText::File::begin);
  const FolderText::File& file = *std::prev(after);
  return concat(file.path, ": byte ", position - file.begin);
}

void TokenSource::check_vocabulary(int64_t vocab_size) const {
  const auto* const file = std::get_if<TokenFile>(&tokens_);
  if (always_fits(file != nullptr ? file->dtype() : DType::kU8, vocab_size)) return;
  std::vector<int64_t> tokens;
  for (int64_t begin = 0; begin < size(); begin += kChunk) {
    tokens.resize(static_cast<size_t>(std::min(kChunk, size() - begin)));
    read(begin, tokens);
    if (std::ranges::max(tokens) < vocab_size) continue;
    const auto beyond = std::ranges::find_if(tokens, [&](int64_t id) { return id >= vocab_size; });
    throw DataError(concat(place(begin + (beyond - tokens.begin())), " is ", *beyond,
                           ", outside the vocabulary of ", vocab_size,
                           "; were data and model made with different tokenizers?"));
  }
}

}  // namespace tessera
