#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json_field.h"
#include "tessera/text/internal/regex.h"

namespace tessera::text::detail {

/// A part of a text on its way to the model.
struct Piece {
  std::string_view text;           // Not empty.
  bool begins_text = false;        // Whether the whole text begins here.
  bool continues = false;          // Whether it continues a text that was cut before it.
  size_t cut = std::string::npos;  // What follows from here on only shows how the text goes on.
};

/// Takes pieces. Returns false if a piece has a cut that falls within a part of the next step.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual bool take(const Piece& piece) = 0;
};

/// A step that divides pieces further. Threads may share it.
class SplitStep {
 public:
  virtual ~SplitStep() = default;
  virtual bool split(const Piece& piece, Matcher& matcher, PieceSink& next) const = 0;
};

/// A file's `pre_tokenizer`. Threads may share it.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  /// DataError for a kind that is not supported.
  explicit PreTokenizer(const JsonField& field);

  const std::vector<std::unique_ptr<SplitStep>>& steps() const { return steps_; }
  /// Whether bytes stand as one visible character each from here on.
  bool is_byte_level() const { return is_byte_level_; }
  /// Whether steps understand a piece's cut: the first one that divides uses an expression, whose
  /// matches depend on nothing further away.
  bool takes_cuts() const { return takes_cuts_; }
  /// Whether there is no step but Metaspace.
  bool is_plain() const { return is_plain_ && !is_byte_level_; }
  /// What stands for a space from here on.
  char32_t space() const { return space_; }

 private:
  void add(const JsonField& field);
  void add_split(const JsonField& field);
  void add_byte_level(const JsonField& field);
  void add_metaspace(const JsonField& field);
  void add_expression(const std::string& pattern, const JsonField& field, bool is_local);

  std::vector<std::unique_ptr<SplitStep>> steps_;
  bool is_byte_level_ = false;
  bool is_plain_ = true;
  bool takes_cuts_ = false;
  char32_t space_ = U' ';
};

}  // namespace tessera::text::detail
