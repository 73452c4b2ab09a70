#include "tessera/format/end_tokens.h"

#include "tessera/format/folder_json.h"

namespace tessera {
namespace {

// By its text, which tokenizer.json lists among the tokens that were added, or in the vocabulary.
std::vector<int64_t> end_of_tokenizer(const std::string& folder, int64_t vocab_size) {
  const FolderJson config(folder, "tokenizer_config.json");
  if (!config.root().has_value("eos_token")) return {};
  const JsonField named = config.root().at("eos_token");
  const std::string text = named.is_object() ? named.at("content").raw_text() : named.raw_text();
  const auto id = [&](const JsonField& field) { return field.integer(0, vocab_size - 1); };
  const FolderJson tokenizer(folder, "tokenizer.json");
  std::vector<int64_t> ends;
  if (tokenizer.root().has_value("added_tokens")) {
    tokenizer.root().at("added_tokens").list([&](const JsonField& token) {
      if (token.at("content").raw_text() == text) ends = {id(token.at("id"))};
      return 0;
    });
  }
  if (!ends.empty() || !tokenizer.root().has_value("model")) return ends;
  const JsonField model = tokenizer.root().at("model");
  const bool is_word = model.has_value("vocab") && model.at("vocab").has_value(text);
  return is_word ? std::vector{id(model.at("vocab").at(text))} : ends;
}

}  // namespace

std::vector<int64_t> end_tokens(const JsonField& config, int64_t vocab_size) {
  if (!config.has_value("eos_token_id")) return {};
  const auto id = [&](const JsonField& field) { return field.integer(0, vocab_size - 1); };
  const JsonField field = config.at("eos_token_id");
  if (!field.value().is_array()) return {id(field)};
  return field.list(id);
}

std::vector<int64_t> end_tokens(const std::string& folder, int64_t vocab_size) {
  for (const char* const name : {"generation_config.json", "config.json"}) {
    const FolderJson file(folder, name);
    std::vector<int64_t> ends = end_tokens(file.root(), vocab_size);
    if (!ends.empty()) return ends;
  }
  return end_of_tokenizer(folder, vocab_size);
}

}  // namespace tessera
