#include <utility>

#include "cli/generate/codec.h"
#include "tessera/text/tokenizer.h"

namespace tessera::cli {
namespace {

class TokenizerCodec final : public Codec {
 public:
  explicit TokenizerCodec(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::vector<int64_t> encode(const std::string& text) const override {
    return tokenizer_.encode(text);
  }
  std::unique_ptr<Stream> stream(std::span<const int64_t> prompt) const override {
    return std::make_unique<TokenizerStream>(DecodeStream(tokenizer_, {}, prompt));
  }

 private:
  class TokenizerStream final : public Stream {
   public:
    explicit TokenizerStream(DecodeStream stream) : stream_(std::move(stream)) {}
    std::string push(int64_t token) override { return stream_.push(token); }
    std::string finish() override { return stream_.finish(); }

   private:
    DecodeStream stream_;
  };

  Tokenizer tokenizer_;
};

}  // namespace

std::unique_ptr<Codec> tokenizer_codec(const std::string& folder, int64_t vocab_size) {
  const Tokenizer tokenizer = Tokenizer::read(folder);
  tokenizer.check_vocabulary(vocab_size);
  return std::make_unique<TokenizerCodec>(tokenizer);
}

}  // namespace tessera::cli
