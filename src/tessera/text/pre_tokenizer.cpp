#include "tessera/text/internal/pre_tokenizer.h"

#include <array>
#include <optional>
#include <utility>

#include "tessera/base/text.h"
#include "tessera/text/internal/normalizer.h"
#include "tessera/text/internal/pattern.h"
#include "tessera/text/internal/utf8.h"

namespace tessera::text::detail {
namespace {

// What ByteLevel splits by, as GPT-2 did.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// A part of a text that an expression matches, or what stands between two of them.
struct Part {
  Range range;
  bool matches = false;
};

/// Calls `use` with every part that is not empty, in order, until it returns false. With `goes_on`
/// the last one may have no end.
template <class Use>
void each_part(std::string_view text, const Regex& pattern, Matcher& matcher, bool goes_on,
               Use use) {
  size_t done = 0;
  for (size_t from = 0; from < text.size();) {
    const auto match = pattern.find(text, from, matcher, goes_on);
    if (!match) break;
    if (match->begin > done && !use(Part{{done, match->begin}, false})) return;
    if (match->size() > 0 && !use(Part{*match, true})) return;
    if (match->end == std::string::npos) return;
    done = match->end;
    from = match->end;
    if (match->size() == 0 && from < text.size()) from += width_of(text[from]);
  }
  if (done < text.size()) use(Part{{done, text.size()}, false});
}

Piece piece_of(const Piece& whole, Range range) {
  return {.text = whole.text.substr(range.begin, range.size()),
          .begins_text = whole.begins_text && range.begin == 0};
}

/// Splits by an expression.
class SplitByPattern final : public SplitStep {
 public:
  SplitByPattern(Regex pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  bool split(const Piece& piece, Matcher& matcher, PieceSink& next) const override {
    if (behavior_ == Behavior::kIsolated || behavior_ == Behavior::kRemoved) {
      return split_apart(piece, matcher, next);
    }
    for (const Range& range : merged(piece.text, matcher)) next.take(piece_of(piece, range));
    return piece.cut == std::string::npos;
  }

 private:
  bool split_apart(const Piece& piece, Matcher& matcher, PieceSink& next) const {
    bool at_cut = piece.cut == std::string::npos;
    each_part(piece.text, pattern_, matcher, !at_cut, [&](const Part& part) {
      if (part.range.end > piece.cut) return false;
      const bool removed = behavior_ == Behavior::kRemoved && part.matches != invert_;
      if (!removed) next.take(piece_of(piece, part.range));
      at_cut = at_cut || part.range.end == piece.cut;
      return true;
    });
    return at_cut;
  }

  std::vector<Range> merged(std::string_view text, Matcher& matcher) const {
    std::vector<Part> parts;
    each_part(text, pattern_, matcher, false, [&](const Part& part) {
      parts.push_back({part.range, part.matches != invert_});
      return true;
    });
    std::vector<Range> ranges;
    for (size_t i = 0; i < parts.size(); ++i) {
      const bool joins = i > 0 && joins_previous(parts, i);
      if (joins) {
        ranges.back().end = parts[i].range.end;
      } else {
        ranges.push_back(parts[i].range);
      }
    }
    return ranges;
  }

  bool joins_previous(const std::vector<Part>& parts, size_t i) const {
    const bool same = parts[i].matches == parts[i - 1].matches;
    if (behavior_ == Behavior::kContiguous) return same;
    if (behavior_ == Behavior::kMergedWithPrevious) return parts[i].matches && !same;
    return parts[i - 1].matches && !same;
  }

  Regex pattern_;
  Behavior behavior_;
  bool invert_;
};

/// Every piece begins with a space.
class AddSpace final : public SplitStep {
 public:
  bool split(const Piece& piece, Matcher&, PieceSink& next) const override {
    if (piece.continues || piece.text.starts_with(' ')) return next.take(piece);
    const std::string text = concat(" ", piece.text);
    Piece longer = piece;
    longer.text = text;
    if (longer.cut != std::string::npos) ++longer.cut;
    return next.take(longer);
  }
};

enum class Prepend { kAlways, kFirst, kNever };

/// Spaces become a visible character, and a piece begins with one.
class Metaspace final : public SplitStep {
 public:
  Metaspace(std::string space, Prepend prepend) : space_(std::move(space)), prepend_(prepend) {}

  bool split(const Piece& piece, Matcher&, PieceSink& next) const override {
    std::string text;
    text.reserve(piece.text.size() + piece.text.size() / 2 + space_.size());
    const bool wanted =
        prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && piece.begins_text);
    const bool has_one = piece.text.starts_with(' ') || piece.text.starts_with(space_);
    if (wanted && !has_one && !piece.continues) text += space_;
    for (size_t begin = 0; begin < piece.text.size();) {
      const size_t end = std::min(piece.text.find(' ', begin), piece.text.size());
      text += piece.text.substr(begin, end - begin);
      if (end < piece.text.size()) text += space_;
      begin = end + 1;
    }
    return next.take({.text = text, .begins_text = piece.begins_text});
  }

 private:
  std::string space_;
  Prepend prepend_;
};

template <class Value, size_t kCount>
Value choice(const JsonField& field,
             const std::array<std::pair<std::string_view, Value>, kCount>& choices) {
  const std::string text = field.raw_text();
  std::vector<std::string_view> names;
  for (const auto& [name, value] : choices) {
    if (text == name) return value;
    names.push_back(name);
  }
  field.refuse("one of " + join(names, ", "));
}

bool flag_or(const JsonField& field, std::string_view key, bool otherwise) {
  return field.has_value(key) ? field.at(key).boolean() : otherwise;
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonField& field) {
  if (!field.is_null()) add(field);
}

void PreTokenizer::add(const JsonField& field) {
  const std::string type = field.at("type").raw_text();
  field.at("type").check(!is_byte_level_, "nothing after ByteLevel");
  if (type == "Sequence") {
    (void)field.at("pretokenizers").list([&](const JsonField& one) {
      add(one);
      return 0;
    });
  } else if (type == "Split") {
    add_split(field);
  } else if (type == "ByteLevel") {
    add_byte_level(field);
  } else if (type == "Metaspace") {
    add_metaspace(field);
  } else if (type == "Digits") {
    const std::string digit = concat("[", find_class("N"), "]");
    add_expression(flag_or(field, "individual_digits", false) ? digit : digit + "+", field, true);
  } else {
    field.at("type").refuse(
        "a supported pre-tokenizer: ByteLevel, Digits, Metaspace, Split or Sequence");
  }
}

void PreTokenizer::add_expression(const std::string& pattern, const JsonField& field,
                                  bool is_local) {
  takes_cuts_ = is_plain_ ? is_local && space_ == U' ' : takes_cuts_;
  is_plain_ = false;
  steps_.push_back(std::make_unique<SplitByPattern>(Regex(pattern, place_of(field)),
                                                    Behavior::kIsolated, false));
}

void PreTokenizer::add_split(const JsonField& field) {
  constexpr std::array<std::pair<std::string_view, Behavior>, 5> kBehaviors{
      {{"Removed", Behavior::kRemoved},
       {"Isolated", Behavior::kIsolated},
       {"MergedWithPrevious", Behavior::kMergedWithPrevious},
       {"MergedWithNext", Behavior::kMergedWithNext},
       {"Contiguous", Behavior::kContiguous}}};
  const PatternField pattern = read_pattern(field.at("pattern"));
  const Behavior behavior = choice(field.at("behavior"), kBehaviors);
  if (behavior == Behavior::kIsolated) return add_expression(pattern.text, field, pattern.is_local);
  is_plain_ = false;
  steps_.push_back(std::make_unique<SplitByPattern>(Regex(pattern.text, place_of(field)), behavior,
                                                    flag_or(field, "invert", false)));
}

void PreTokenizer::add_byte_level(const JsonField& field) {
  if (flag_or(field, "add_prefix_space", true)) steps_.push_back(std::make_unique<AddSpace>());
  if (flag_or(field, "use_regex", true))
    add_expression(translate_pattern(kByteLevelPattern, field).text, field, true);
  is_byte_level_ = true;
}

void PreTokenizer::add_metaspace(const JsonField& field) {
  constexpr std::array<std::pair<std::string_view, Prepend>, 3> kSchemes{
      {{"always", Prepend::kAlways}, {"first", Prepend::kFirst}, {"never", Prepend::kNever}}};
  const std::string space = field.at("replacement").raw_text();
  field.at("replacement")
      .check(!space.empty() && space.size() == width_of(space[0]), "one character");
  const Prepend prepend = field.has_value("prepend_scheme")
                              ? choice(field.at("prepend_scheme"), kSchemes)
                              : Prepend::kAlways;
  if (!flag_or(field, "add_prefix_space", true)) {
    field.at("add_prefix_space")
        .check(prepend == Prepend::kNever, "true, or prepend_scheme \"never\"");
  }
  steps_.push_back(std::make_unique<Metaspace>(space, prepend));
  space_ = first_character(space);
  if (!flag_or(field, "split", true)) return;
  steps_.push_back(std::make_unique<SplitByPattern>(Regex(quoted_pattern(space), place_of(field)),
                                                    Behavior::kMergedWithNext, false));
}

}  // namespace tessera::text::detail
