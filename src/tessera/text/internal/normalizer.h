#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json_field.h"
#include "tessera/text/internal/regex.h"

namespace tessera::text::detail {

/// The steps of a file's `normalizer`, in order. Threads may share it.
class Normalizer {
 public:
  /// No steps.
  Normalizer() = default;
  /// DataError for a kind that is not supported.
  explicit Normalizer(const JsonField& field);

  bool is_empty() const { return steps_.empty(); }
  /// Whether a text may be cut before an ASCII character or after a line break, and each part
  /// normalized by itself, those but the first without what a text begins with.
  bool is_local() const { return is_local_; }

  /// `begins`: whether the text begins here, or continues one that was cut.
  std::string run(std::string_view text, bool begins, Matcher& matcher) const;

 private:
  enum class Kind { kNfc, kNfd, kNfkc, kNfkd, kPrepend, kReplace };
  struct Step {
    Kind kind;
    std::string content = "";  // What is prepended, or put in place.
    std::optional<Regex> pattern = std::nullopt;
  };
  void add(const JsonField& field);
  /// `most`: the bytes that the result may have.
  static std::string apply(const Step& step, std::string text, bool begins, size_t most,
                           Matcher& matcher);

  std::vector<Step> steps_;
  bool is_local_ = true;
};

/// The most bytes that a file's steps may make of a text. Real files need a few times its size; a
/// hostile chain of replacements doubles it with each of them.
constexpr size_t most_bytes(size_t bytes) {
  return 64 * bytes + 4096;
}

/// Every match replaced by the content. DataError if the result has more than `most` bytes.
std::string replace_all(std::string_view text, const Regex& pattern, std::string_view content,
                        size_t most, Matcher& matcher);

/// A `pattern` field: {"String": …} or {"Regex": …}, in PCRE2's language.
struct PatternField {
  std::string text;
  bool is_local = true;
  bool is_one_character = false;  // A string of a single character.
};
PatternField read_pattern(const JsonField& field);

/// The message's beginning for an expression: "file: path".
std::string place_of(const JsonField& field);

}  // namespace tessera::text::detail
