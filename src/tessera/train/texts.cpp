#include "tessera/train/texts.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "tessera/base/check.h"
#include "tessera/data/token_source.h"

namespace tessera {
namespace {

constexpr int64_t kBytes = 256;

bool is_text_of(const TrainConfig& config, const std::string& path) {
  return is_text(path, parse_token_kind(config.data.kind));
}

}  // namespace

std::vector<std::string> texts_to_encode(const TrainConfig& config) {
  std::vector<std::string> texts;
  if (config.data.tokenizer.empty() || config.data.kind != "auto") return texts;
  std::ranges::copy_if(config.data.paths, std::back_inserter(texts),
                       [&](const std::string& path) { return is_text_of(config, path); });
  return texts;
}

void check_texts(const TrainConfig& config, const LlamaConfig& shape) {
  const std::string& tokenizer = config.data.tokenizer;
  if (!tokenizer.empty()) {
    TSR_CHECK(std::filesystem::exists(std::filesystem::path(tokenizer) / "tokenizer.json"),
              tokenizer, " (data.tokenizer) has no tokenizer.json; give the folder of one");
    return;
  }
  if (config.model.path.empty() || config.data.kind != "auto" || shape.vocab_size == kBytes) return;
  for (const std::string& path : config.data.paths) {
    if (!std::filesystem::exists(path)) continue;  // Whoever opens it says so.
    TSR_CHECK(!is_text_of(config, path), path, " is text, but ", config.model.path,
              " has no tokenizer.json, and its vocabulary of ", shape.vocab_size,
              " is not that of bytes; give --tokenizer DIR, a token file, or --data.kind=bytes");
  }
}

std::optional<int64_t> text_bytes(const TrainConfig& config, const TokenData& data) {
  const bool is_bytes = std::ranges::all_of(config.data.paths, [&](const std::string& path) {
    return is_text_of(config, path) &&
           (config.data.tokenizer.empty() || config.data.kind != "auto");
  });
  if (is_bytes) return data.size() - std::ssize(data.sources());
  return config.data.tokenizer.empty() ? std::nullopt : encoded_bytes(config, data);
}

}  // namespace tessera
