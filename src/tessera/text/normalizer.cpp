#include "tessera/text/internal/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/text/internal/newer_characters.h"
#include "tessera/text/internal/pattern.h"
#include "tessera/text/internal/utf8.h"

namespace tessera::text::detail {
namespace {

// Characters below U+0300, whose UTF-8 begins below this, are their own NFC, and none of them is
// changed by the one before it.
constexpr unsigned char kFirstOfMarks = 0xcc;

/// One of Unicode's normal forms, with memory that is used again.
class NormalForm {
 public:
  explicit NormalForm(int options) : options_(static_cast<utf8proc_option_t>(options)) {}

  /// Newer characters stay where they are, and marks behind them are theirs.
  void append(std::string_view text, std::string& out) {
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const std::string_view rest = text.substr(at);
      const size_t width = width_of(rest[0]);
      if (width > 1 && is_newer(first_character(rest))) {
        append_known(text.substr(begin, at - begin), out);
        out += rest.substr(0, width);
        begin = at + width;
      }
      at += width;
    }
    append_known(text.substr(begin), out);
  }

 private:
  void append_known(std::string_view text, std::string& out) {
    if (text.empty()) return;
    const auto bytes = static_cast<utf8proc_ssize_t>(text.size());
    const auto* const begin = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    if (characters_.size() < 4 * text.size() + 4) characters_.resize(4 * text.size() + 4);
    utf8proc_ssize_t count = decompose(begin, bytes);
    if (count > std::ssize(characters_)) {
      characters_.resize(static_cast<size_t>(count));
      count = decompose(begin, bytes);
    }
    if (count >= 0) count = utf8proc_normalize_utf32(characters_.data(), count, options_);
    if (count < 0) throw std::bad_alloc();  // The text is valid, so that only memory can lack.
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      append_character(out, static_cast<char32_t>(characters_[static_cast<size_t>(i)]));
    }
  }

  utf8proc_ssize_t decompose(const utf8proc_uint8_t* begin, utf8proc_ssize_t bytes) {
    return utf8proc_decompose(begin, bytes, characters_.data(), std::ssize(characters_), options_);
  }

  utf8proc_option_t options_;
  std::vector<utf8proc_int32_t> characters_;
};

// The text in parts, each of which begins with an ASCII character: no normal form joins it with
// what stands before it. Most parts need no work.
std::string in_normal_form(std::string_view text, int options, unsigned char first_that_changes) {
  NormalForm form(options);
  std::string out;
  out.reserve(text.size());
  for (size_t begin = 0; begin < text.size();) {
    bool changes = false;
    size_t end = begin;
    size_t ascii = begin;  // The last ASCII character before a part that changes.
    for (; end < text.size(); ++end) {
      const auto byte = static_cast<unsigned char>(text[end]);
      if (byte < 0x80) {
        if (changes) break;
        ascii = end;
      }
      changes = changes || byte >= first_that_changes;
    }
    if (!changes) {
      out += text.substr(begin, end - begin);
    } else {
      out += text.substr(begin, ascii - begin);
      form.append(text.substr(ascii, end - ascii), out);
    }
    begin = end;
  }
  return out;
}

}  // namespace

std::string place_of(const JsonField& field) {
  return concat(field.origin(), ": ", field.path());
}

PatternField read_pattern(const JsonField& field) {
  if (field.has("String")) {
    const std::string text = field.at("String").raw_text();
    field.at("String").check(!text.empty(), "a text that is not empty");
    return {quoted_pattern(text), true, text.size() == width_of(text[0])};
  }
  const JsonField expression = field.at("Regex");
  const Pattern pattern = translate_pattern(expression.raw_text(), expression);
  return {pattern.text, pattern.is_local, false};
}

std::string replace_all(std::string_view text, const Regex& pattern, std::string_view content,
                        size_t most, Matcher& matcher) {
  std::string out;
  size_t copied = 0;
  for (size_t from = 0; from <= text.size();) {
    const auto match = pattern.find(text, from, matcher);
    if (!match) break;
    out += text.substr(copied, match->begin - copied);
    out += content;
    if (out.size() + text.size() - match->end > most) {
      throw DataError(concat(pattern.origin(), ": replacing makes a text of more than ", most,
                             " bytes; is the file meant to fill the memory?"));
    }
    copied = match->end;
    from = match->end;
    if (match->size() > 0) continue;
    if (from >= text.size()) break;
    from += width_of(text[from]);
  }
  return out += text.substr(copied);
}

Normalizer::Normalizer(const JsonField& field) {
  if (!field.is_null()) add(field);
}

void Normalizer::add(const JsonField& field) {
  constexpr std::array<std::pair<std::string_view, Kind>, 4> kForms{
      {{"NFC", Kind::kNfc}, {"NFD", Kind::kNfd}, {"NFKC", Kind::kNfkc}, {"NFKD", Kind::kNfkd}}};
  const std::string type = field.at("type").raw_text();
  for (const auto& [name, kind] : kForms) {
    if (type != name) continue;
    steps_.push_back({.kind = kind});
    return;
  }
  if (type == "Sequence") {
    (void)field.at("normalizers").list([&](const JsonField& one) {
      add(one);
      return 0;
    });
  } else if (type == "Prepend") {
    is_local_ = is_local_ && std::ranges::none_of(steps_, [](const Step& step) {
                  return step.kind == Kind::kPrepend;
                });
    steps_.push_back({.kind = Kind::kPrepend, .content = field.at("prepend").raw_text()});
  } else if (type == "Replace") {
    const PatternField pattern = read_pattern(field.at("pattern"));
    is_local_ = is_local_ && pattern.is_one_character;
    steps_.push_back({.kind = Kind::kReplace,
                      .content = field.at("content").raw_text(),
                      .pattern = Regex(pattern.text, place_of(field))});
  } else {
    field.at("type").refuse(
        "a supported normalizer: NFC, NFD, NFKC, NFKD, Prepend, Replace or Sequence");
  }
}

std::string Normalizer::apply(const Step& step, std::string text, bool begins, size_t most,
                              Matcher& matcher) {
  constexpr int kCompose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  constexpr int kDecompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  switch (step.kind) {
    case Kind::kNfc:
      return in_normal_form(text, kCompose, kFirstOfMarks);
    case Kind::kNfd:
      return in_normal_form(text, kDecompose, 0x80);
    case Kind::kNfkc:
      return in_normal_form(text, kCompose | UTF8PROC_COMPAT, 0x80);
    case Kind::kNfkd:
      return in_normal_form(text, kDecompose | UTF8PROC_COMPAT, 0x80);
    case Kind::kPrepend:
      return begins && !text.empty() ? step.content + text : text;
    case Kind::kReplace:
      return replace_all(text, *step.pattern, step.content, most, matcher);
  }
  return text;
}

std::string Normalizer::run(std::string_view text, bool begins, Matcher& matcher) const {
  std::string result(text);
  const size_t most = most_bytes(text.size());
  for (const Step& step : steps_) result = apply(step, std::move(result), begins, most, matcher);
  return result;
}

}  // namespace tessera::text::detail
