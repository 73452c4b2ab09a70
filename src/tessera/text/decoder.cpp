#include "tessera/text/internal/decoder.h"

#include <algorithm>
#include <optional>

#include "tessera/base/text.h"
#include "tessera/text/internal/bpe.h"
#include "tessera/text/internal/normalizer.h"
#include "tessera/text/internal/utf8.h"

namespace tessera::text::detail {
namespace {

// A token that holds any other character stands for itself.
void append_bytes(const std::string& token, std::string& bytes) {
  const size_t before = bytes.size();
  for (size_t at = 0; at < token.size(); at += width_of(token[at])) {
    const auto byte = byte_of(first_character(std::string_view(token).substr(at)));
    if (!byte) {
      bytes.resize(before);
      bytes += token;
      return;
    }
    bytes += static_cast<char>(*byte);
  }
}

// The byte of "<0x41>".
std::optional<char> byte_of_token(const std::string& token) {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const std::string digits = token.substr(3, 2);
  if (digits.find_first_not_of(kDigits) != std::string::npos) return std::nullopt;
  return static_cast<char>(std::stoi(digits, nullptr, 16));
}

// A run of bytes is text as a whole, or else one replacement for each.
void end_run(std::string& run, std::vector<std::string>& out) {
  if (run.empty()) return;
  if (find_invalid(run)) {
    out.insert(out.end(), run.size(), std::string(kReplacement));
  } else {
    out.push_back(run);
  }
  run.clear();
}

std::vector<std::string> without_byte_tokens(std::vector<std::string> tokens) {
  std::vector<std::string> out;
  std::string run;
  for (std::string& token : tokens) {
    if (const auto byte = byte_of_token(token)) {
      run += *byte;
      continue;
    }
    end_run(run, out);
    out.push_back(std::move(token));
  }
  end_run(run, out);
  return out;
}

std::string stripped(std::string_view token, std::string_view content, size_t begin, size_t end) {
  for (size_t i = 0; i < begin && token.starts_with(content); ++i)
    token.remove_prefix(content.size());
  for (size_t i = 0; i < end && token.ends_with(content); ++i) token.remove_suffix(content.size());
  return std::string(token);
}

std::string with_spaces(const std::string& token, const std::string& space,
                        std::string_view instead) {
  std::string out;
  for (size_t begin = 0; begin <= token.size();) {
    const size_t end = std::min(token.find(space, begin), token.size());
    out += token.substr(begin, end - begin);
    if (end < token.size()) out += instead;
    begin = end + space.size();
  }
  return out;
}

}  // namespace

Decoder::Decoder(const JsonField& field) {
  if (!field.is_null()) add(field);
}

void Decoder::add(const JsonField& field) {
  const std::string type = field.at("type").raw_text();
  const auto character = [&](std::string_view key) {
    std::string text = field.at(key).raw_text();
    field.at(key).check(!text.empty() && text.size() == width_of(text[0]), "one character");
    return text;
  };
  if (type == "Sequence") {
    (void)field.at("decoders").list([&](const JsonField& one) {
      add(one);
      return 0;
    });
  } else if (type == "ByteLevel") {
    steps_.push_back({.kind = Kind::kByteLevel});
  } else if (type == "ByteFallback") {
    steps_.push_back({.kind = Kind::kByteFallback});
  } else if (type == "Fuse") {
    steps_.push_back({.kind = Kind::kFuse});
  } else if (type == "Replace") {
    const PatternField pattern = read_pattern(field.at("pattern"));
    steps_.push_back({.kind = Kind::kReplace,
                      .content = field.at("content").raw_text(),
                      .pattern = Regex(pattern.text, place_of(field))});
  } else if (type == "Strip") {
    steps_.push_back({.kind = Kind::kStrip,
                      .content = character("content"),
                      .begin = static_cast<size_t>(field.at("start").integer(0)),
                      .end = static_cast<size_t>(field.at("stop").integer(0))});
  } else if (type == "Metaspace") {
    const bool never =
        field.has_value("prepend_scheme") && field.at("prepend_scheme").raw_text() == "never";
    steps_.push_back(
        {.kind = Kind::kMetaspace, .content = character("replacement"), .prepends = !never});
  } else {
    field.at("type").refuse(
        "a supported decoder: ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Strip or "
        "Sequence");
  }
}

std::vector<std::string> Decoder::apply(const Step& step, std::vector<std::string> tokens,
                                        size_t most) {
  switch (step.kind) {
    case Kind::kByteLevel: {
      std::string bytes;
      for (const std::string& token : tokens) append_bytes(token, bytes);
      return {repaired(bytes)};
    }
    case Kind::kByteFallback:
      return without_byte_tokens(std::move(tokens));
    case Kind::kFuse:
      return {join(tokens, "")};
    case Kind::kReplace: {
      Matcher matcher;
      for (std::string& token : tokens) {
        token = replace_all(token, *step.pattern, step.content, most, matcher);
        most -= std::min(most, token.size());
      }
      return tokens;
    }
    case Kind::kStrip:
      for (std::string& token : tokens) token = stripped(token, step.content, step.begin, step.end);
      return tokens;
    case Kind::kMetaspace:
      for (size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = with_spaces(tokens[i], step.content, i == 0 && step.prepends ? "" : " ");
      }
      return tokens;
  }
  return tokens;
}

std::string Decoder::run(std::vector<std::string> tokens) const {
  if (steps_.empty()) return join(tokens, " ");
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  for (const Step& step : steps_) tokens = apply(step, std::move(tokens), most_bytes(bytes));
  return join(tokens, "");
}

// Neither may look at a token's end, nor replace in what was joined before.
bool Decoder::is_steady() const {
  bool joined = false;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kStrip && step.end > 0) return false;
    if (step.kind == Kind::kReplace && joined) return false;
    joined = joined || step.kind == Kind::kFuse || step.kind == Kind::kByteLevel;
  }
  return true;
}

bool Decoder::is_byte(const std::string& token) const {
  return byte_of_token(token).has_value() &&
         std::ranges::any_of(steps_, [](const Step& s) { return s.kind == Kind::kByteFallback; });
}

}  // namespace tessera::text::detail
