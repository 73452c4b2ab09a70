#include "tessera/text/internal/pattern.h"

#include <array>
#include <utility>

#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera::text::detail {
namespace {

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Reads one expression from left to right and writes it in PCRE2's language.
class Translator {
 public:
  Translator(std::string_view text, const JsonField& field) : field_(field), text_(text) {}

  Pattern run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    field_.refuse(
        concat("an expression that means the same to PCRE2; this has ", what, " at offset ", at_));
  }
  bool ahead(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  char take() { return text_[at_++]; }
  void copy(size_t count) {
    out_.text += text_.substr(at_, count);
    at_ += count;
  }

  void step() {
    switch (text_[at_]) {
      case '\\':
        return escape();
      case '[':
        return character_class();
      case '(':
        return open();
      case '{':
        return repeat();
      case '^':
      case '$':
        refuse("an anchor");
      default:
        copy(1);
    }
  }

  // ---- Groups

  void open() {
    if (!ahead("(?")) {
      ++at_;
      out_.text += "(?:";  // Nothing refers to what a group has matched.
      return;
    }
    for (const std::string_view behind : {"(?<=", "(?<!"}) {
      if (!ahead(behind)) continue;
      out_.is_local = false;
      return copy(behind.size());
    }
    for (const std::string_view known : {"(?:", "(?i:", "(?>", "(?=", "(?!"}) {
      if (ahead(known)) return copy(known.size());
    }
    refuse("a group of another kind");
  }

  void repeat() {
    const size_t end = text_.find('}', at_);
    if (end == std::string::npos) refuse("a single brace");
    const std::string range = text_.substr(at_ + 1, end - at_ - 1);
    if (range.empty() || range.find_first_not_of("0123456789,") != std::string::npos ||
        range.find(',') != range.rfind(',') || range == ",") {
      refuse("braces that are not a repetition");
    }
    out_.text += range[0] == ',' ? concat("{0", range, "}") : concat("{", range, "}");
    at_ = end + 1;
    if (ahead("?") || ahead("+")) refuse("a repetition with a suffix");
  }

  // ---- Escapes and classes

  void escape() {
    const std::string_view next = std::string_view(text_).substr(at_ + 1);
    if (next.empty()) refuse("a backslash at its end");
    bool negated = false;
    if (const char* const characters = class_escape(negated)) {
      out_.text += concat(negated ? "[^" : "[", characters, "]");
    } else {
      character_escape();
    }
  }

  // \d, \s, \w, \p{…} and their opposites: the characters as a class has them; null for others.
  const char* class_escape(bool& negated) {
    const char letter = text_[at_ + 1];
    if (letter == 'p' || letter == 'P') return property(negated);
    const auto lower = static_cast<char>(letter | 0x20);
    if (lower != 'd' && lower != 's' && lower != 'w') return nullptr;
    negated = letter != lower;
    at_ += 2;
    return find_class({&lower, 1});
  }

  const char* property(bool& negated) {
    const size_t end = text_.find('}', at_);
    if (text_.substr(at_ + 2, 1) != "{" || end == std::string::npos) refuse("a broken property");
    std::string name = text_.substr(at_ + 3, end - at_ - 3);
    negated = text_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.erase(0, 1);
    }
    const char* const characters = find_class(name);
    const bool is_category = !name.empty() && name[0] >= 'A' && name[0] <= 'Z' && name != "S!";
    if (characters == nullptr || !is_category) {
      refuse(concat("the property '", visible(name), "'"));
    }
    at_ = end + 1;
    return characters;
  }

  // A single character, for either place.
  void character_escape() {
    const char letter = text_[at_ + 1];
    constexpr std::array<std::pair<char, const char*>, 7> kControls{{{'n', "\\n"},
                                                                     {'r', "\\r"},
                                                                     {'t', "\\t"},
                                                                     {'f', "\\f"},
                                                                     {'v', "\\x0B"},
                                                                     {'a', "\\a"},
                                                                     {'e', "\\e"}}};
    for (const auto& [name, written] : kControls) {
      if (name != letter) continue;
      out_.text += written;
      at_ += 2;
      return;
    }
    if (letter == 'x' || letter == 'u') return number_escape(letter);
    if (is_alphanumeric(letter) || static_cast<signed char>(letter) < 0) {
      refuse(concat("the escape '\\", visible({&letter, 1}), "'"));
    }
    copy(2);
  }

  void number_escape(char letter) {
    constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
    at_ += 2;
    const bool braces = letter == 'x' && ahead("{");
    const size_t begin = at_ + (braces ? 1 : 0);
    const size_t most = braces ? 8 : (letter == 'x' ? 2 : 4);
    size_t end = begin;
    while (end < text_.size() && end - begin < most && kDigits.find(text_[end]) != kDigits.npos) {
      ++end;
    }
    const bool closed = !braces || (end < text_.size() && text_[end] == '}');
    if (end == begin || !closed || (!braces && end - begin < most)) refuse("a broken number");
    out_.text += concat("\\x{", text_.substr(begin, end - begin), "}");
    at_ = end + (braces ? 1 : 0);
  }

  void character_class() {
    out_.text += take();
    if (ahead("^")) out_.text += take();
    if (ahead("]")) refuse("an empty class");
    bool may_be_range = false;  // Whether a hyphen here would begin a range.
    while (!ahead("]")) {
      if (at_ >= text_.size()) refuse("an open class");
      may_be_range = class_item(may_be_range);
    }
    out_.text += take();
  }

  // Returns whether a single character was read, which may be the begin of a range.
  bool class_item(bool after_character) {
    if (ahead("[") || ahead("&&")) refuse("a class within a class");
    if (ahead("-") && !ahead("-]")) {
      if (!after_character) refuse("a hyphen that is not a range");
      copy(1);
      if (ahead("\\")) check_end_of_range();
      return false;
    }
    if (!ahead("\\")) {
      copy(1);
      return true;
    }
    if (at_ + 1 >= text_.size()) refuse("a backslash at its end");
    bool negated = false;
    const char* characters = class_escape(negated);
    if (characters == nullptr) {
      character_escape();
      return true;
    }
    if (negated) {
      if (characters != find_class("s")) refuse("the opposite of a class within a class");
      characters = find_class("S!");
    }
    out_.text += characters;
    return false;
  }

  void check_end_of_range() const {
    const std::string_view letter = std::string_view(text_).substr(at_ + 1, 1);
    if (letter.find_first_of("dDsSwWpP") != letter.npos) refuse("a range up to a class");
  }

  const JsonField& field_;
  std::string text_;
  size_t at_ = 0;
  Pattern out_;
};

}  // namespace

Pattern translate_pattern(std::string_view text, const JsonField& field) {
  return Translator(text, field).run();
}

}  // namespace tessera::text::detail
