// A build without tokenizers.
#include "tessera/base/error.h"
#include "tessera/base/text.h"
#include "tessera/train/texts.h"

namespace tessera {

void encode_texts(const TrainConfig& config, const EncodeTexts&) {
  const std::vector<std::string> texts = texts_to_encode(config);
  if (texts.empty()) return;
  throw DataError(concat(texts.front(), " is text, which ", config.data.tokenizer,
                         "/tokenizer.json is to encode, but this build has no tokenizers: install ",
                         "PCRE2 and utf8proc (Debian: libpcre2-dev, libutf8proc-dev) and build ",
                         "again, or train on token files"));
}

std::vector<std::string> token_paths(const TrainConfig& config) {
  encode_texts(config, {});
  return config.data.paths;
}

std::optional<int64_t> encoded_bytes(const TrainConfig&, const TokenData&) {
  return std::nullopt;
}

}  // namespace tessera
