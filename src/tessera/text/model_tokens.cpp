#include "tessera/text/model_tokens.h"

#include "tessera/base/text.h"
#include "tessera/format/end_tokens.h"
#include "tessera/format/folder_json.h"

namespace tessera {
namespace {

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
  const FolderJson config(folder, "config.json");
  const JsonField root = config.root();
  if (root.has_value("vocab_size")) {
    tokens.vocab_size = root.at("vocab_size").integer(1);
    tokenizer.check_vocabulary(*tokens.vocab_size);
  }
  tokens.ends = end_tokens(root, tokenizer.vocab_size());
  if (!tokens.ends.empty()) return tokens;
  const FolderJson generation(folder, "generation_config.json");
  tokens.ends = end_tokens(generation.root(), tokenizer.vocab_size());
  if (!tokens.ends.empty()) return tokens;
  const FolderJson tokenizer_config(folder, "tokenizer_config.json");
  tokens.ends = ends_of_tokenizer(tokenizer_config.root(), tokenizer);
  return tokens;
}

}  // namespace tessera
