#pragma once

#include <string>
#include <string_view>

#include "tessera/base/json_field.h"

namespace tessera::text::detail {

/// A regular expression of a tokenizer.json, which is in Oniguruma's language, in PCRE2's.
struct Pattern {
  std::string text;
  /// Whether no match depends on what stands before it.
  bool is_local = true;
};

/// `field` is where the text comes from. Character classes are those of Unicode 16 even where PCRE2
/// is older. DataError naming the field for a construct whose meaning differs between the two
/// languages.
Pattern translate_pattern(std::string_view text, const JsonField& field);

/// A class of characters, as PCRE2 reads it between square brackets: "L" for letters, "N" for
/// numbers, and other general categories; "s" for white space, "w" for Oniguruma's \w, "word" for
/// Rust's. Null for an unknown name.
const char* find_class(std::string_view name);

}  // namespace tessera::text::detail
