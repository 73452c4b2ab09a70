#include "tessera/text/model_tokens.h"

#include <filesystem>

#include "tessera/base/json_field.h"
#include "tessera/base/read_file.h"
#include "tessera/base/terminal_text.h"
#include "tessera/base/text.h"

namespace tessera {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20U;

/// A JSON file of a folder; an empty object if there is none.
class FolderFile {
 public:
  FolderFile(const std::string& folder, const std::string& name)
      : path_(std::filesystem::path(folder) / name),
        source_{.origin = path_, .what = "configuration", .deepest = 32} {
    if (std::filesystem::exists(path_)) json_ = parse_json(read_file(path_, kMostBytes), source_);
  }
  FolderFile(const FolderFile&) = delete;
  FolderFile& operator=(const FolderFile&) = delete;

  JsonField root() const { return {json_, source_}; }

 private:
  std::string path_;
  JsonSource source_;
  nlohmann::json json_ = nlohmann::json::object();
};

int64_t known_id(const JsonField& field, const Tokenizer& tokenizer) {
  return field.integer(0, tokenizer.vocab_size() - 1);
}

std::vector<int64_t> ends_of_config(const JsonField& config, const Tokenizer& tokenizer) {
  if (!config.has_value("eos_token_id")) return {};
  const JsonField field = config.at("eos_token_id");
  if (!field.value().is_array()) return {known_id(field, tokenizer)};
  return field.list([&](const JsonField& one) { return known_id(one, tokenizer); });
}

// The token's text, or an object with it.
std::vector<int64_t> ends_of_tokenizer(const JsonField& config, const Tokenizer& tokenizer) {
  if (!config.has_value("eos_token")) return {};
  const JsonField field = config.at("eos_token");
  const std::string token = field.is_object() ? field.at("content").raw_text() : field.raw_text();
  const auto id = tokenizer.find(token);
  field.check(id.has_value(), concat("a token of ", kTokenizerFile));
  return {*id};
}

}  // namespace

ModelTokens read_model_tokens(const std::string& folder, const Tokenizer& tokenizer) {
  ModelTokens tokens;
  const FolderFile config(folder, "config.json");
  const JsonField root = config.root();
  if (root.has_value("vocab_size")) {
    tokens.vocab_size = root.at("vocab_size").integer(1);
    tokenizer.check_vocabulary(*tokens.vocab_size);
  }
  tokens.ends = ends_of_config(root, tokenizer);
  if (!tokens.ends.empty()) return tokens;
  const FolderFile tokenizer_config(folder, "tokenizer_config.json");
  tokens.ends = ends_of_tokenizer(tokenizer_config.root(), tokenizer);
  return tokens;
}

}  // namespace tessera
