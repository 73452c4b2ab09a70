#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/export.h"
#include "tessera/data/folder_text.h"
#include "tessera/format/token_file.h"

namespace tessera TSR_API {

/// How the tokens of a source are stored.
enum class TokenKind {
  kAuto,   // .npy says itself, .bin is kU16, all else is kBytes.
  kBytes,  // A text, each byte a token: a vocabulary of 256.
  kU16,    // Bare little-endian numbers.
  kU32,
};

/// "auto", "bytes", "u16", "u32".
std::string_view to_string(TokenKind kind);
/// ConfigError with the nearest name for others.
TokenKind parse_token_kind(std::string_view text);
/// Every name that parse_token_kind takes.
std::vector<std::string> token_kind_names();

/// The tokens of a file, or of the texts in a folder.
///
/// A file is memory-mapped. A folder is walked in the order of its paths, and each text that is
/// found is followed by one byte 0, which no text has. Hidden files and folders, build folders,
/// links, SVG pictures and files with a byte 0 in them are passed over. May be shared by threads.
class TokenSource {
 public:
  /// DataError where nothing is there, where the file is no such array, where a text has a byte 0
  /// and kBytes was not asked for, and where a folder holds no text or more than 4 GiB of them;
  /// ConfigError for a folder as numbers.
  explicit TokenSource(const std::string& path, TokenKind kind = TokenKind::kAuto);

  const std::string& path() const { return path_; }
  /// The number of tokens.
  int64_t size() const;
  /// The tokens from `begin` on; ConfigError beyond the end.
  void read(int64_t begin, std::span<int64_t> tokens) const;

  /// Looks at every token once. DataError with file, position and id of the first one that a
  /// vocabulary of `vocab_size` does not have.
  void check_vocabulary(int64_t vocab_size) const;

 private:
  using Tokens = std::variant<FolderText, TokenFile>;
  static Tokens open(const std::string& path, TokenKind kind);
  std::string place(int64_t position) const;

  std::string path_;
  Tokens tokens_;
};

}  // namespace tessera
