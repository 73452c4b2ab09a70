#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/text/internal/encoder_parts.h"
#include "tessera/text/internal/utf8.h"

namespace tessera {

using namespace text::detail;

namespace text::detail {

constexpr size_t kNoCut = std::string::npos;

class EncoderParts::ModelSink final : public PieceSink {
 public:
  explicit ModelSink(EncoderParts& encoder) : encoder_(encoder) {}
  bool take(const Piece& piece) override {
    encoder_.parts.bpe.encode(piece.text, encoder_.memory_, *encoder_.ids_);
    return piece.cut == kNoCut;
  }

 private:
  EncoderParts& encoder_;
};

class EncoderParts::StepSink final : public PieceSink {
 public:
  StepSink(const SplitStep& step, Matcher& matcher, PieceSink& next)
      : step_(step), matcher_(matcher), next_(next) {}
  bool take(const Piece& piece) override { return step_.split(piece, matcher_, next_); }

 private:
  const SplitStep& step_;
  Matcher& matcher_;
  PieceSink& next_;
};

EncoderParts::EncoderParts(Tokenizer of, const TokenizerParts& its_parts)
    : tokenizer(std::move(of)), parts(its_parts) {
  sinks_.push_back(std::make_unique<ModelSink>(*this));
  const auto& steps = parts.pre_tokenizer.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    sinks_.push_back(std::make_unique<StepSink>(**step, matcher_, *sinks_.back()));
  }
}

bool EncoderParts::encode(const Encoder::Part& part, std::vector<int64_t>& out) {
  if (part.text.empty()) return true;
  ids_ = &out;
  const bool is_whole = part.size == part.text.size();
  return encode_segments(parts.raw_tokens,
                         {.text = part.text,
                          .begins_text = !part.continues,
                          .continues = part.continues,
                          .cut = is_whole ? kNoCut : part.size},
                         true);
}

// The added tokens of a text, and what stands between them. A cut must not fall within a token.
bool EncoderParts::encode_segments(const AddedTokenFinder& finder, const Piece& piece,
                                   bool is_raw) {
  if (finder.is_empty()) return is_raw ? normalize(piece) : split(piece);
  bool fits = true;
  finder.each(piece.text, matcher_, [&](const Segment& segment) {
    const Range range = segment.range;
    if (range.begin >= piece.cut) return false;
    if (segment.token != nullptr) {
      fits = piece.cut == kNoCut || range.end <= piece.cut;
      if (fits) ids_->push_back(segment.token->id);
      return fits;
    }
    const bool has_cut = piece.cut != kNoCut && range.end > piece.cut;
    const Piece between{.text = piece.text.substr(range.begin, range.size()),
                        .begins_text = piece.begins_text && range.begin == 0,
                        .continues = piece.continues && range.begin == 0,
                        .cut = has_cut ? piece.cut - range.begin : kNoCut};
    fits = is_raw ? normalize(between) : split(between);
    return fits && !has_cut;
  });
  return fits;
}

bool EncoderParts::normalize(const Piece& piece) {
  if (parts.normalizer.is_empty()) return encode_segments(parts.normalized_tokens, piece, false);
  const size_t end = std::min(piece.cut, piece.text.size());
  std::string text = parts.normalizer.run(piece.text.substr(0, end), !piece.continues, matcher_);
  Piece normalized = piece;
  if (piece.cut != kNoCut) {
    normalized.cut = text.size();
    text += parts.normalizer.run(piece.text.substr(end), false, matcher_);
  }
  normalized.text = text;
  return text.empty() || encode_segments(parts.normalized_tokens, normalized, false);
}

bool EncoderParts::split(const Piece& piece) {
  if (piece.cut != kNoCut && parts.division() == TokenizerParts::Division::kBetweenSymbols) {
    return split_between_symbols(piece);
  }
  return sinks_.back()->take(piece);
}

bool EncoderParts::split_between_symbols(Piece piece) {
  if (piece.cut == 0) return false;
  const auto shown = [this](char32_t character) {
    return character == U' ' ? parts.pre_tokenizer.space() : character;
  };
  const char32_t before = shown(last_character(piece.text.substr(0, piece.cut)));
  const char32_t after = shown(first_character(piece.text.substr(piece.cut)));
  if (!parts.bpe.can_cut(before, after)) return false;
  piece.text = piece.text.substr(0, piece.cut);
  piece.cut = kNoCut;
  return sinks_.back()->take(piece);
}

}  // namespace text::detail

namespace {

void check_utf8(std::string_view text, const std::string& origin) {
  const auto invalid = find_invalid(text);
  if (!invalid) return;
  throw DataError(concat(origin, ": the text is not UTF-8 at byte ", *invalid, " of ", text.size(),
                         "; convert it first"));
}

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Between a word and a space before the next one, or between two lines. Most expressions divide
// texts there.
bool is_promising(std::string_view text, size_t at) {
  if (text[at - 1] == '\n') return static_cast<unsigned char>(text[at]) > ' ';
  return text[at] == ' ' && is_letter_or_digit(text[at - 1]) && is_letter_or_digit(text[at + 1]);
}

}  // namespace

Encoder::Encoder(Tokenizer tokenizer) {
  const TokenizerParts& parts = *tokenizer.parts_;
  parts_ = std::make_unique<EncoderParts>(std::move(tokenizer), parts);
}
Encoder::Encoder(Encoder&&) noexcept = default;
Encoder::~Encoder() = default;

void Encoder::append(std::string_view text, std::vector<int64_t>& ids,
                     const EncodeOptions& options) {
  check_utf8(text, parts_->parts.origin);
  const PostProcessor& around = parts_->parts.post_processor;
  if (options.add_special) ids.insert(ids.end(), around.before().begin(), around.before().end());
  parts_->encode({.text = text, .size = text.size()}, ids);
  if (options.add_special) ids.insert(ids.end(), around.after().begin(), around.after().end());
}

bool Encoder::append_part(const Part& part, std::vector<int64_t>& ids) {
  TSR_CHECK(part.size <= part.text.size(), "a part of ", part.size, " bytes of a text of ",
            part.text.size());
  check_utf8(part.text, parts_->parts.origin);
  return parts_->encode(part, ids);
}

std::optional<size_t> Tokenizer::find_division(std::string_view text, size_t from) const {
  const TokenizerParts& parts = *parts_;
  if (parts.division() == TokenizerParts::Division::kNone) return std::nullopt;
  for (size_t at = std::max<size_t>(from, 1); at + 1 < text.size(); ++at) {
    if (is_promising(text, at) && !parts.raw_tokens.begins_at(text, at)) return at;
  }
  return std::nullopt;
}

}  // namespace tessera
