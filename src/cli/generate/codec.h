#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera::cli {

/// Turns text into a model's tokens and back.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::vector<int64_t> encode(const std::string& text) const = 0;

  /// The text of tokens that come one after the other.
  class Stream {
   public:
    virtual ~Stream() = default;
    /// What this token adds; may be "" until later ones complete a character.
    virtual std::string push(int64_t token) = 0;
    virtual std::string finish() = 0;
  };
  /// Of tokens behind those of a prompt.
  virtual std::unique_ptr<Stream> stream(std::span<const int64_t> prompt) const = 0;
};

/// The tokenizer.json of the folder, or else bytes: one token each. DataError if the model's
/// vocabulary fits neither.
std::unique_ptr<Codec> find_codec(const std::string& folder, int64_t vocab_size);

/// The codec of a tokenizer.json; an error in a build without tokenizers.
std::unique_ptr<Codec> tokenizer_codec(const std::string& folder, int64_t vocab_size);

}  // namespace tessera::cli
