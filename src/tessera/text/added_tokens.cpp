#include "tessera/text/internal/added_tokens.h"

#include <algorithm>

#include "tessera/base/text.h"
#include "tessera/text/internal/pattern.h"
#include "tessera/text/internal/utf8.h"

namespace tessera::text::detail {
namespace {

unsigned char byte_at(std::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

size_t begin_of_last_character(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (byte_at(text, begin) & 0xc0U) == 0x80) --begin;
  return begin;
}

bool fits(const Regex& one_character, std::string_view character, Matcher& matcher) {
  return one_character.find(character.substr(0, width_of(character[0])), 0, matcher).has_value();
}

bool is_word(std::string_view text, Matcher& matcher) {
  static const Regex kWord(concat("[", find_class("word"), "]"), "words");
  return fits(kWord, text, matcher);
}

bool is_space(std::string_view text, Matcher& matcher) {
  static const Regex kSpace(concat("[", find_class("s"), "]"), "white space");
  return fits(kSpace, text, matcher);
}

bool is_single_word(std::string_view text, Range match, Matcher& matcher) {
  const std::string_view before = text.substr(0, match.begin);
  const std::string_view after = text.substr(match.end);
  return (before.empty() || !is_word(before.substr(begin_of_last_character(before)), matcher)) &&
         (after.empty() || !is_word(after, matcher));
}

// The match with the white space that its token takes along. What comes before `done` belongs to
// other tokens. Of that, only white space can be behind the match.
Range stripped(std::string_view text, Range match, size_t done, const AddedToken& token,
               Matcher& matcher) {
  if (token.lstrip) {
    while (match.begin > done) {
      const size_t before = begin_of_last_character(text.substr(0, match.begin));
      if (!is_space(text.substr(before), matcher)) break;
      match.begin = before;
    }
  }
  if (token.rstrip) {
    match.end = std::max(match.end, done);
    while (match.end < text.size() && is_space(text.substr(match.end), matcher)) {
      match.end += width_of(text[match.end]);
    }
  }
  return match;
}

}  // namespace

void AddedTokenFinder::add(std::string_view text, const AddedToken& token) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    uint32_t to = step(node, byte);
    if (to == 0) {
      to = static_cast<uint32_t>(nodes_.size());
      nodes_[node].next.emplace_back(byte, to);
      nodes_.emplace_back();
    }
    node = to;
  }
  begins_.at(byte_at(text, 0)) = true;
  if (nodes_[node].token == nullptr) nodes_[node].token = &token;
}

uint32_t AddedTokenFinder::step(uint32_t node, unsigned char byte) const {
  for (const auto& [known, to] : nodes_[node].next) {
    if (known == byte) return to;
  }
  return 0;
}

std::pair<size_t, const AddedToken*> AddedTokenFinder::longest(std::string_view text,
                                                               size_t at) const {
  std::pair<size_t, const AddedToken*> best{at, nullptr};
  uint32_t node = 0;
  for (size_t end = at; end < text.size();) {
    node = step(node, byte_at(text, end));
    if (node == 0) break;
    ++end;
    if (nodes_[node].token != nullptr) best = {end, nodes_[node].token};
  }
  return best;
}

size_t AddedTokenFinder::next_candidate(std::string_view text, size_t at) const {
  while (at < text.size() && !begins_[byte_at(text, at)]) ++at;
  return at;
}

void AddedTokenFinder::each(std::string_view text, Matcher& matcher,
                            const std::function<bool(const Segment&)>& use) const {
  size_t done = 0;
  for (size_t at = next_candidate(text, 0); at < text.size(); at = next_candidate(text, at)) {
    const auto [end, token] = longest(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    const Range found{at, end};
    at = end;
    if (token->single_word && !is_single_word(text, found, matcher)) continue;
    Range range = stripped(text, found, done, *token, matcher);
    range.begin = std::max(range.begin, std::min(done, found.end));
    if (done < range.begin && !use({{done, range.begin}})) return;
    if (!use({range, token})) return;
    done = range.end;
  }
  if (done < text.size()) use({{done, text.size()}});
}

}  // namespace tessera::text::detail
