#include "tessera/text/tokenizer.h"

#include <filesystem>

#include "tessera/base/check.h"
#include "tessera/base/read_file.h"
#include "tessera/text/internal/tokenizer_parts.h"
#include "tessera/text/internal/utf8.h"

namespace tessera {

using namespace text::detail;

namespace {

constexpr size_t kMostBytes = size_t{256} << 20U;  // Of a file; the largest in use have 30 MB.

// FNV-1a.
uint64_t fingerprint_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}

Tokenizer Tokenizer::parse(std::string_view text, std::string_view origin) {
  const JsonSource source{.origin = origin, .what = "tokenizer", .deepest = 16};
  const nlohmann::json file = parse_json(text, source);
  auto parts = std::make_shared<TokenizerParts>(JsonField(file, source), std::string(origin));
  parts->fingerprint = fingerprint_of(text);
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::read(const std::string& folder) {
  const std::string path = std::filesystem::path(folder) / kTokenizerFile;
  if (!std::filesystem::exists(path)) {
    throw DataError(concat(folder, " has no ", kTokenizerFile,
                           "; a model without one reads bytes, and needs no tokens"));
  }
  const std::string text = read_file(path, kMostBytes + 1);
  if (text.size() > kMostBytes) {
    throw DataError(concat(path, " has more than ", with_thousands(kMostBytes), " bytes"));
  }
  return parse(text, path);
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<int64_t> ids;
  Encoder(*this).append(text, ids, options);
  return ids;
}

std::string Tokenizer::decode(std::span<const int64_t> ids, const DecodeOptions& options) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const int64_t id : ids) {
    const std::string* const token = parts_->token_of(id);
    if (token == nullptr) {
      tokens.emplace_back(kReplacement);
    } else if (options.keep_special || !parts_->special.contains(*token)) {
      tokens.push_back(*token);
    }
  }
  return parts_->decoder.run(std::move(tokens));
}

int64_t Tokenizer::vocab_size() const {
  return parts_->largest_id() + 1;
}

std::optional<int64_t> Tokenizer::find(std::string_view token) const {
  if (const auto at = parts_->added_by_content.find(token); at != parts_->added_by_content.end()) {
    return at->second->id;
  }
  return parts_->bpe.find(token);
}

std::span<const int64_t> Tokenizer::ids_before() const {
  return parts_->post_processor.before();
}

std::span<const int64_t> Tokenizer::ids_after() const {
  return parts_->post_processor.after();
}

uint64_t Tokenizer::fingerprint() const {
  return parts_->fingerprint;
}

void Tokenizer::check_vocabulary(int64_t vocab_size) const {
  if (this->vocab_size() <= vocab_size) return;
  throw DataError(concat(parts_->origin, " has ids up to ", this->vocab_size() - 1,
                         ", outside the model's vocabulary of ", vocab_size,
                         "; is it another model's?"));
}

}  // namespace tessera
