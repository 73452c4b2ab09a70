#include "tessera/format/end_tokens.h"

#include "tessera/format/folder_json.h"

namespace tessera {

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
  return {};
}

}  // namespace tessera
