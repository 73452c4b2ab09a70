#include <algorithm>
#include <filesystem>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/text/decoded_bytes.h"
#include "tessera/text/model_tokens.h"
#include "tessera/text/token_cache.h"
#include "tessera/train/texts.h"
#include "tessera/train/train_model.h"

namespace tessera {
namespace {

TokenCache cache_of(const TrainConfig& config) {
  return {.folder = token_cache(config),
          .tokenizer = config.data.tokenizer,
          .vocab_size = shape_of(config.model).vocab_size};
}

void check_document_end(const DataSection& data, const TokenCache& cache) {
  if (!data.documents) return;
  const int64_t end = cache.document_end();
  TSR_CHECK(data.document_end == end, "data.document_end=", data.document_end,
            ", but the encoded texts end with the token ", end, "; give --data.document_end=", end);
}

}  // namespace

void encode_texts(const TrainConfig& config, const EncodeTexts& callbacks) {
  const std::vector<std::string> texts = texts_to_encode(config);
  if (texts.empty()) return;
  const TokenCache cache = cache_of(config);
  check_document_end(config.data, cache);
  const int64_t threads = std::max<int64_t>(1, std::thread::hardware_concurrency());
  for (const std::string& text : texts) {
    bool begun = false;
    const auto show = [&](const TokenizeProgress& progress) {
      if (!begun && callbacks.begin) callbacks.begin(text, cache.path_of(text));
      begun = true;
      if (callbacks.show) callbacks.show(progress);
    };
    const auto done = cache.make(text, threads, {.wait = callbacks.wait, .show = show});
    if (done && callbacks.end) callbacks.end(*done);
  }
}

std::vector<std::string> token_paths(const TrainConfig& config) {
  const std::vector<std::string> texts = texts_to_encode(config);
  std::vector<std::string> paths = config.data.paths;
  if (texts.empty()) return paths;
  const TokenCache cache = cache_of(config);
  for (std::string& path : paths) {
    if (std::ranges::find(texts, path) == texts.end()) continue;
    const std::string tokens = cache.path_of(path);
    if (!std::filesystem::exists(tokens)) {
      throw DataError(concat("the text ", path, " was encoded by rank 0, but ", tokens,
                             " is not there: either the text has just changed, or this host does ",
                             "not share its files with that of rank 0; give data.cache a folder ",
                             "that all hosts share"));
    }
    path = tokens;
  }
  return paths;
}

std::optional<int64_t> encoded_bytes(const TrainConfig& config, const TokenData& data) {
  const Tokenizer tokenizer = Tokenizer::read(config.data.tokenizer);
  const std::vector<int64_t> ends = read_model_tokens(config.data.tokenizer, tokenizer).ends;
  const int64_t end = ends.empty() ? -1 : ends.front();
  int64_t bytes = 0;
  for (const TokenRun& run : data.sources()) bytes += decoded_bytes(tokenizer, run.source(), end);
  return bytes;
}

}  // namespace tessera
