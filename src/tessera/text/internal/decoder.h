#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json_field.h"
#include "tessera/text/internal/regex.h"

namespace tessera::text::detail {

/// A file's `decoder`: from tokens back to text. Threads may share it.
class Decoder {
 public:
  Decoder() = default;
  /// DataError for a kind that is not supported.
  explicit Decoder(const JsonField& field);

  std::string run(std::vector<std::string> tokens) const;

  /// Whether the text of some tokens, but for bytes at its end that are no text yet, begins the
  /// text of these and any later ones, except in a run of tokens for bytes (is_byte).
  bool is_steady() const;
  /// Whether what a token means depends on the tokens for bytes around it.
  bool is_byte(const std::string& token) const;

 private:
  enum class Kind { kByteLevel, kByteFallback, kFuse, kReplace, kStrip, kMetaspace };
  struct Step {
    Kind kind;
    std::string content = "";  // Replace: what is put in place; Strip, Metaspace: a character.
    std::optional<Regex> pattern = std::nullopt;
    size_t begin = 0;       // Strip: how many at the begin of a token;
    size_t end = 0;         // and at its end.
    bool prepends = false;  // Metaspace: whether the first token begins with an added space.
  };
  void add(const JsonField& field);
  /// `most`: the bytes that the tokens may have together.
  static std::vector<std::string> apply(const Step& step, std::vector<std::string> tokens,
                                        size_t most);

  std::vector<Step> steps_;
};

}  // namespace tessera::text::detail
