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
  kAuto,   // .npy states its type, .bin is kU16, .u32 is kU32, others are kBytes.
  kBytes,  // Text, one token per byte: a vocabulary of 256.
  kU16,    // Raw little-endian numbers.
  kU32,
};

/// "auto", "bytes", "u16", "u32".
std::string_view to_string(TokenKind kind);
/// ConfigError with the nearest name if there is no such kind.
TokenKind parse_token_kind(std::string_view text);
/// Every name that parse_token_kind accepts.
std::vector<std::string> token_kind_names();

/// Whether a source of this kind is text, by its name: a folder, or a file whose name does not say
/// that it holds numbers.
bool is_text(const std::string& path, TokenKind kind);

/// The tokens of a file or of the text files in a folder.
///
/// A file is memory-mapped. A folder is read in the order of its paths; each text is followed by
/// one zero byte, which no text contains. Hidden files and folders, build folders, links, SVG files
/// and files with a zero byte are skipped. Threads may share a source.
class TokenSource {
 public:
  /// DataError if the path does not exist, if the file is not such an array, if a text file has a
  /// zero byte and the kind is not kBytes, or if a folder holds no text files or more than 4 GiB of
  /// them. ConfigError for a folder with kU16 or kU32.
  explicit TokenSource(const std::string& path, TokenKind kind = TokenKind::kAuto);

  /// As given to the constructor.
  const std::string& path() const { return path_; }
  /// The number of tokens.
  int64_t size() const;
  /// Reads the tokens from `begin` on; ConfigError beyond the end.
  void read(int64_t begin, std::span<int64_t> tokens) const;

  /// Checks every token. DataError with file, position and id of the first one that is not below
  /// `vocab_size`.
  void check_vocabulary(int64_t vocab_size) const;

 private:
  using Tokens = std::variant<FolderText, TokenFile>;
  static Tokens open(const std::string& path, TokenKind kind);
  std::string place(int64_t position) const;

  std::string path_;
  Tokens tokens_;
};

}  // namespace tessera
