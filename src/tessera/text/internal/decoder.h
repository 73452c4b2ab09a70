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
  static std::vector<std::string> apply(const Step& step, std::vector<std::string> tokens);

  std::vector<Step> steps_;
};

}  // namespace tessera::text::detail
