#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/export.h"

namespace tessera TSR_API {

namespace text::detail {
struct TokenizerParts;
struct EncoderParts;
}  // namespace text::detail

/// The name of a tokenizer's file in a Hugging Face folder.
inline constexpr std::string_view kTokenizerFile = "tokenizer.json";

/// How texts become tokens.
struct EncodeOptions {
  bool add_special = true;  // The tokens that the file puts before and behind a text, e.g. BOS.
};

/// How tokens become text.
struct DecodeOptions {
  bool keep_special = false;  // Whether special tokens, e.g. BOS, stand in the text.
};

/// A Hugging Face tokenizer.json: text to token ids and back, with the same ids as the `tokenizers`
/// package. docs/tokenizers.md lists what is supported. A handle; copies share what was read.
/// Threads may share it.
class Tokenizer {
 public:
  /// DataError, which begins with `origin`, for a file that is broken, contradicts itself or asks
  /// for what is not supported.
  static Tokenizer parse(std::string_view text, std::string_view origin);
  /// The tokenizer.json of a Hugging Face folder; DataError if there is none.
  static Tokenizer read(const std::string& folder);

  /// DataError with the byte if the text is not UTF-8.
  std::vector<int64_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Always valid UTF-8: U+FFFD stands for bytes that are no text and for ids without a token.
  std::string decode(std::span<const int64_t> ids, const DecodeOptions& options = {}) const;

  /// One more than the largest id.
  int64_t vocab_size() const;
  /// Added tokens included.
  std::optional<int64_t> find(std::string_view token) const;
  /// DataError if the tokenizer has ids that a model of this vocabulary does not.
  void check_vocabulary(int64_t vocab_size) const;

  /// Where a text may be divided for Encoder::append_part: the first promising place at `from` or
  /// later; nothing if there is none before `text` ends, or this tokenizer allows none at all.
  std::optional<size_t> find_division(std::string_view text, size_t from) const;

  /// The ids that EncodeOptions::add_special puts before those of a text, e.g. BOS.
  std::span<const int64_t> ids_before() const;
  /// The ids that EncodeOptions::add_special puts behind those of a text, e.g. EOS.
  std::span<const int64_t> ids_after() const;
  /// A number of the file's content, to tell files apart.
  uint64_t fingerprint() const;

 private:
  friend class DecodeStream;
  friend class Encoder;
  explicit Tokenizer(std::shared_ptr<const text::detail::TokenizerParts> parts);
  std::shared_ptr<const text::detail::TokenizerParts> parts_;
};

/// Encodes many texts: remembers words that it has seen. Each thread needs its own.
class Encoder {
 public:
  explicit Encoder(Tokenizer tokenizer);
  Encoder(Encoder&&) noexcept;
  ~Encoder();

  /// Appends the ids of a text; DataError with the byte if it is not UTF-8.
  void append(std::string_view text, std::vector<int64_t>& ids, const EncodeOptions& options = {});

  /// A part of a longer text.
  struct Part {
    std::string_view text;   // The part, and some of what follows it.
    size_t size = 0;         // Bytes of the part itself.
    bool continues = false;  // Whether the text began before it.
  };
  /// Appends the ids of a part without special tokens. Returns false if a token may reach across
  /// its end: then what was appended is of no use, and the text must be divided elsewhere. All
  /// parts of a text for which this returns true give the ids of the whole text.
  bool append_part(const Part& part, std::vector<int64_t>& ids);

 private:
  std::unique_ptr<text::detail::EncoderParts> parts_;
};

/// Decodes ids one after the other, for text that is shown while it is generated. All its parts
/// together are what Tokenizer::decode gives.
class DecodeStream {
 public:
  /// The text goes on behind that of the ids `before`, which is not returned: decoders treat the
  /// first token of a text in their own way.
  explicit DecodeStream(Tokenizer tokenizer, const DecodeOptions& options = {},
                        std::span<const int64_t> before = {});

  /// The text that this id adds and that no later one can change; may be "".
  std::string push(int64_t id);
  /// What is left at the end.
  std::string finish();

 private:
  std::string emit(const std::string& text);
  void forget_shown();

  Tokenizer tokenizer_;
  DecodeOptions options_;
  std::vector<int64_t> ids_;  // The last ones; all that was returned does not depend on others.
  size_t shown_ = 0;          // Bytes of the ids' text that were returned.
};

}  // namespace tessera
